package input

import (
	"io"
	"os"
	"path/filepath"

	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/kernel"
)

// liveKernel makes an ELF file of the kernel that runs, or of one of its modules, if its build ID is that of id. Its code
// is what the processors execute: alternatives, static calls and static keys are as they are patched now. The file has
// no name any more.
func liveKernel(id sample.ImageID) (*os.File, error) {
	code, err := kernel.ReadCode(id)
	if err != nil {
		return nil, err
	}
	m, err := collect.OpenKernelMemory(code)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	f, err := os.CreateTemp("", "backfeed-kernel-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if err = code.WriteELF(f, m); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// vmlinux are the places below roots where the kernel that runs may have a file with symbols, lines and, but for debug
// files, code: those that perf looks at. Modules have none that is linked.
func vmlinux(id sample.ImageID, roots ...string) (paths []string) {
	if id.Path != "[kernel]" {
		return nil
	}
	release := collect.ThisHost().Release
	for _, root := range roots {
		for _, path := range []string{
			"usr/lib/debug/boot/vmlinux-" + release, "usr/lib/debug/lib/modules/" + release + "/vmlinux", "usr/lib/debug/boot/vmlinux-" + release + ".debug",
			"boot/vmlinux-" + release, "lib/modules/" + release + "/build/vmlinux", "lib/modules/" + release + "/vmlinux",
		} {
			paths = append(paths, filepath.Join(root, path))
		}
	}
	return paths
}
