package web

import (
	"fmt"
	"sync"
	"time"
)

// A later is a value that is worked out once, in the background, when it is first asked for.
type later[T any] struct {
	once  sync.Once
	done  chan struct{}
	value T
	err   error
}

// get returns what work returned; false if it is not done in time. A patience below 0 has no end.
func (l *later[T]) get(patience time.Duration, work func() (T, error)) (value T, err error, done bool) {
	l.once.Do(func() {
		l.done = make(chan struct{})
		go func() {
			defer close(l.done)
			defer func() { // no handler of net/http's is around this
				if p := recover(); p != nil {
					l.err = fmt.Errorf("internal error: %v", p)
				}
			}()
			l.value, l.err = work()
		}()
	})
	if patience < 0 {
		<-l.done
		return l.value, l.err, true
	}
	select {
	case <-l.done:
		return l.value, l.err, true
	case <-time.After(patience):
		return value, nil, false
	}
}
