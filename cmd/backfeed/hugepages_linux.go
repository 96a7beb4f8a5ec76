package main

import (
	"os"
	"syscall"
	"unsafe"
)

// forHugePages is memory of n bytes, untouched and dead as soon as nobody holds it, which the kernel was asked to back with huge pages where
// the heap uses it again (madvise(2), MADV_HUGEPAGE). A kernel that has none refuses, and nothing is lost.
func forHugePages(n int64) []byte {
	b := make([]byte, n)
	page := uintptr(os.Getpagesize())
	if skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page; skip < uintptr(n) {
		syscall.Madvise(b[skip:], syscall.MADV_HUGEPAGE)
	}
	return b
}
