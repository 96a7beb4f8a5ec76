//go:build !arm64

package collect

func addressBits() uint64 { return 1<<64 - 1 }
