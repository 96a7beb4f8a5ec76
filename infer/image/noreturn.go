package image

import "sync"

// flowCache is what was learnt about the code of an image beyond one procedure.
type flowCache struct {
	mu   sync.Mutex
	ends map[Addr]bool // of addresses of code: whether control never returns from there
	refs struct {
		sync.Once
		*refs
	}
}
