//go:build amd64 || arm64

package collect

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// What a System follows of a machine that changes while it runs: processors that
// come and go, and modules of the kernel.

const (
	// lookEvery is the time between two looks at which processors there are.
	lookEvery = time.Second
	// readModulesEvery is the time between two readings of the list of modules. A new
	// module may lie where an old one was.
	readModulesEvery = 10 * time.Second
)

// plug takes in processors that have come, and lets go those that have gone. What it
// can't open, as that of a processor which is about to go, is tried again at the
// next look.
func (s *System) plug() {
	online, err := s.online()
	if err != nil || slices.Equal(online, slices.Sorted(slices.Values(s.cpus))) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.cpus) - 1; i >= 0; i-- {
		if !slices.Contains(online, s.cpus[i]) {
			s.drop(i)
		}
	}
	for _, cpu := range online {
		if !slices.Contains(s.cpus, cpu) {
			s.add(cpu)
		}
	}
}

// add samples one more processor.
func (s *System) add(cpu int) {
	if s.records.add(cpu) != nil {
		return
	}
	s.cpus = append(s.cpus, cpu)
	last := len(s.cpus) - 1
	if s.opt.Tick {
		s.setWorth(cpu, 0, uint64(tickPeriod()))
		return
	}
	err := s.openEvents(cpu)
	if err == nil {
		s.pace.add()
		for _, fds := range s.events {
			err = errors.Join(err, ioctlAll(fds[last:], unix.PERF_EVENT_IOC_ENABLE))
		}
	}
	if err != nil {
		s.drop(last)
	}
}

// drop lets go the processor of index i.
func (s *System) drop(i int) {
	s.records.drop(i)
	s.cpus = slices.Delete(s.cpus, i, i+1)
	for e, fds := range s.events {
		if i < len(fds) {
			s.past[e].add(fds[i])
			unix.Close(fds[i])
			s.events[e] = slices.Delete(fds, i, i+1)
		}
	}
	if s.pace != nil {
		s.pace.drop(i)
	}
}

// refresh reads the list of the kernel's modules, if that was long ago. What the
// kernel hides is left out.
func (s *System) refresh(now time.Time) {
	if now.Sub(s.modulesRead) < readModulesEvery {
		return
	}
	s.modulesRead = now
	list, err := os.ReadFile(s.moduleList)
	if s.kernel.parts != nil && (err != nil || bytes.Equal(list, s.modules)) {
		return
	}
	modules, _ := parseModules(bytes.NewReader(list))
	s.modules, s.kernel = list, newKernelMap(s.symbols, modules, KernelBuildID)
}
