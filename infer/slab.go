package infer

import (
	"cmp"
	"sync"
)

// A search of all procedures together reads the lists of one procedure after another, again and again. So these are contiguous
// in memory, in the order of the procedures, where the processor fetches ahead. And there are few objects to collect.

// A slab hands out parts of larger lists.
type slab[T any] struct {
	size int // how long these lists are; 0 is slabSize
	pool sync.Pool
}

const slabSize = 1 << 13

// take returns n zeros that nobody else has.
func (s *slab[T]) take(n int) []T {
	size := cmp.Or(s.size, slabSize)
	if n > size/4 {
		return make([]T, n)
	}
	rest, _ := s.pool.Get().(*[]T)
	if rest == nil {
		rest = new([]T)
	}
	if len(*rest) < n {
		*rest = make([]T, size)
	}
	part := (*rest)[:n:n]
	*rest = (*rest)[n:]
	s.pool.Put(rest)
	return part
}

// one returns one of them.
func (s *slab[T]) one() *T { return &s.take(1)[0] }

// keep returns a copy of list.
func (s *slab[T]) keep(list []T) []T {
	kept := s.take(len(list))
	copy(kept, list)
	return kept
}

var (
	problems  = slab[problem]{size: slabSize / 64}
	flows     = slab[flow]{size: slabSize / 64}
	factors   = slab[factor]{size: slabSize / 64}
	floats    slab[float64]
	indexes   slab[int32]
	steps     slab[step]
	outEdges  slab[outEdge]
	unitLists slab[unit]
	feedLists slab[feed]
	weighings slab[weighing]
	forkLists slab[fork]
)
