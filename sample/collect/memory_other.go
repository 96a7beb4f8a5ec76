//go:build !linux || !(amd64 || arm64)

package collect

import "backfeed/sample/kernel"

// OpenKernelMemory returns an *Unavailable error.
func OpenKernelMemory(*kernel.Code) (kernel.Memory, error) { return nil, KernelSymbols.unsupported() }
