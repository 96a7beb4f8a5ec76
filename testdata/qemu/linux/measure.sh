#!/bin/bash
# measure.sh DIR [SECONDS] measures what profiles of Linux's own code are worth: Debian sid's Linux, a small configuration of it, is
# built by clang, recorded for SECONDS (45) in QEMU while work.c has it work, and built anew by what `emit llvm` and `emit
# propeller` make of that (CONFIG_AUTOFDO_CLANG, CONFIG_PROPELLER_CLANG). plugin/count.c counts the kernel's instructions and the
# jumps that it took in the same run of work.c on each. In QEMU, an exception takes as long as thousands of instructions, so
# the clock that is sampled by is one of instructions (-icount), of 8 ns each. This Linux has no other timer than its tick:
# 250 samples a second. Needs what .ci/run installs, and flex, bison, bc, dwarves, libelf-dev, libssl-dev and busybox-static;
# 6 GB, and each build half an hour of processor time.
set -euo pipefail
dir=${1?directory} seconds=${2:-45} rounds=${ROUNDS:-40}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir" && cd "$dir" && dir=$PWD
(cd "$here/../../.." && CGO_ENABLED=0 go build -o "$dir/backfeed" ./cmd/backfeed)
gcc -O2 -shared -fPIC -o count.so "$here/../plugin/count.c"
gcc -O2 -static -no-pie -o work "$here/work.c" -Wl,--section-start=.begin=0x50000000,--section-start=.end=0x50001000

. "$here/../../consumers/apt.sh"

if [ ! -d src ]; then
	packages sid deb
	package=$(apt apt-cache depends linux-source | sed -n 's/.*Depends: \(linux-source-.*\)/\1/p')
	apt apt-get download "$package"
	dpkg-deb -x "$package"_*.deb unpacked && rm "$package"_*.deb
	mkdir src && tar -xf "unpacked/usr/src/$package.tar.xz" -C src --strip-components 1 && rm -r unpacked
fi

# kernel NAME ARGUMENT... builds Linux in NAME.
kernel() {
	local out=$dir/$1
	[ -f "$out/vmlinux.done" ] && return
	mkdir -p "$out"
	if [ "$1" != base ]; then
		cp base/.config "$out"
	elif [ ! -f base/.config ]; then
		make -s -C src LLVM=-19 O="$out" tinyconfig
		src/scripts/config --file "$out/.config" -d EXPERT -e 64BIT -e SMP -e KERNEL_GZIP -e PRINTK -e TTY -e SERIAL_8250 -e SERIAL_8250_CONSOLE \
			-e BLK_DEV_INITRD -e RD_GZIP -e BINFMT_ELF -e BINFMT_SCRIPT -e PROC_FS -e PROC_KCORE -e SYSFS -e DEVTMPFS -e DEBUG_FS -e SHMEM -e TMPFS \
			-e FUTEX -e EPOLL -e SIGNALFD -e TIMERFD -e EVENTFD -e POSIX_TIMERS -e MULTIUSER -e SYSVIPC -e AIO -e IO_URING -e NAMESPACES -e PID_NS \
			-e CGROUPS -e NET -e UNIX -e INET -e HIGH_RES_TIMERS -e NO_HZ_IDLE -e PERF_EVENTS -e BPF_SYSCALL -e BPF_JIT -e BPF_EVENTS -e FTRACE \
			-e KPROBES -e KALLSYMS -e KALLSYMS_ALL -e DEBUG_KERNEL -d DEBUG_INFO_NONE -e DEBUG_INFO_DWARF5 -e DEBUG_INFO_BTF \
			-e CC_OPTIMIZE_FOR_PERFORMANCE -d CC_OPTIMIZE_FOR_SIZE -d RANDOMIZE_BASE -e AUTOFDO_CLANG -e PROPELLER_CLANG
	fi
	make -s -C src LLVM=-19 O="$out" olddefconfig
	make -s -C src LLVM=-19 O="$out" -j "$(nproc)" "${@:2}" bzImage >"$1.make" 2>&1 || { tail "$1.make" >&2; return 1; }
	touch "$out/vmlinux.done"
}

# initramfs NAME FILE... has the files, and /init of standard input if that is not empty.
initramfs() {
	local root=$dir/$1.root
	rm -rf "$root" && mkdir -p "$root"/{bin,proc,sys,dev,tmp}
	cp "${@:2}" "$root"
	cat >"$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$1.initramfs"
}

# boot NAME INITRAMFS INIT ARGUMENT [FLAG...] boots NAME's kernel for INIT.
boot() {
	qemu-system-x86_64 -nodefaults -display none -no-reboot -m 1G -cpu max -serial "file:$1.console" \
		-kernel "$1/arch/x86/boot/bzImage" -initrd "$2.initramfs" \
		-append "console=ttyS0 quiet panic=-1 nokaslr rdinit=$3 -- $4" "${@:5}"
}

# counted NAME counts what the kernel NAME does for work.c.
counted() {
	boot "$1" work /work "$rounds" -plugin "./count.so,out=$1.json,kernel=$dir/$1/vmlinux,from=0x50000000,to=0x50001000"
	grep -q 'work done' "$1.console" || { tail "$1.console" >&2; return 1; }
	python3 - "$1" "$1.json" <<'PY'
import json, sys
it = json.load(open(sys.argv[2]))["[kernel]"]
print(f"{sys.argv[1]:<16}{sum(it['insn'].values()):>14} instructions {sum(n for _, _, n in it['jump']):>12} jumps taken {sum(n for _, _, n in it['call']):>12} calls")
PY
}

kernel base
initramfs work work </dev/null
counted base

initramfs record work backfeed /bin/busybox <<INIT
#!/busybox sh
/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
stty -F /dev/ttyS1 raw
/work 1000000 >/tmp/out &
/backfeed record -a --kernel -F 999 -d ${seconds}s -o /tmp/k.bfr
cat /tmp/k.bfr >/dev/ttyS1
sync
sleep 1
reboot -f
INIT
[ -s k.bfr ] || boot base record /init "" -icount shift=3,sleep=off -serial file:k.bfr
./backfeed infer k.bfr --symfs base --format json -o k.json
./backfeed verify k.json --truth base.json --symfs base
./backfeed emit llvm k.bfr --image base/vmlinux --symfs base --format extbinary -o k.afdo
kernel autofdo CLANG_AUTOFDO_PROFILE="$dir/k.afdo"
counted autofdo
./backfeed emit propeller k.bfr --image base/vmlinux --symfs base -o k_cc_profile.txt --ld k_ld_profile.txt
kernel propeller CLANG_PROPELLER_PROFILE_PREFIX="$dir/k"
counted propeller
