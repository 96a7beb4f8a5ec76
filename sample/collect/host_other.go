//go:build !linux

package collect

import "runtime"

// ThisHost has no kernel that samples.
func ThisHost() *Host { return &Host{OS: runtime.GOOS, Arch: runtime.GOARCH} }
