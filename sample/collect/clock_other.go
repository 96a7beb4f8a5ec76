//go:build !linux

package collect

func on(_ int, f func()) { f() }
