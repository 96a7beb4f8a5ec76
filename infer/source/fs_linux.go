package source

import (
	"os"

	"golang.org/x/sys/unix"
)

// MadeByKernel reports whether a file is none of a disk: those of /proc and its like
// look regular, wherever they are mounted.
func MadeByKernel(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
		unix.NSFS_MAGIC, unix.BINFMTFS_MAGIC, configfsMagic, mqueueMagic:
		return true
	}
	return false
}

// Of the kernel's fs/configfs/mount.c and ipc/mqueue.c, 6.12; x/sys has no names for them.
const (
	configfsMagic = 0x62656570
	mqueueMagic   = 0x19800202
)
