package collect

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Privileged says why the kernel lets no event of this user go on in a program once it runs (begin_new_exec in fs/exec.c of Linux: a process
// that may not be dumped has none), so that it has no samples; "" if it does.
func Privileged(program string) string {
	path, err := exec.LookPath(program)
	if err != nil || os.Geteuid() == 0 {
		return ""
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return ""
	}
	switch _, err := unix.Getxattr(path, "security.capability", nil); {
	case st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Getuid():
		return "is set-user-ID"
	case st.Mode&unix.S_ISGID != 0 && int(st.Gid) != os.Getgid():
		return "is set-group-ID"
	case err == nil:
		return "has capabilities of its file"
	case unix.Access(path, unix.R_OK) != nil:
		return "may be executed but not read"
	}
	return ""
}
