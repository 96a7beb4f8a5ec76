#!/bin/sh
# Makes the seeds beside it from tiny.c, with Debian 12's gcc and gcc-aarch64-linux-gnu.
set -e
cd "$(dirname "$0")"
flags="-O2 -fPIC -shared -nostdlib -Wl,-z,noseparate-code,-z,max-page-size=4096,--build-id"
gcc $flags tiny.c -o x86.elf
strip -o x86.stripped.elf x86.elf
gcc $flags -fcf-protection -Wl,-z,ibtplt,--hash-style=gnu tiny.c -o x86.ibt.elf
gcc $flags -Wl,-z,pack-relative-relocs -Wl,-z,now tiny.c -o x86.relr.elf
aarch64-linux-gnu-gcc $flags -mbranch-protection=standard tiny.c -o arm.elf
