package collect

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCalmMonitor looks whether it is the Go runtime's monitor whose timers may be late: that thread sleeps for a short time, again
// and again, while others are at work.
func TestCalmMonitor(t *testing.T) {
	tid, err := monitorThread()
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	sleeps := false
	for range 500 {
		call, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
		if err != nil {
			t.Skipf("system calls of threads: %v", err)
		}
		if number, _, _ := strings.Cut(string(call), " "); number == strconv.Itoa(unix.SYS_NANOSLEEP) {
			sleeps = true
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !sleeps {
		t.Fatalf("thread %d never sleeps by itself: not the monitor", tid)
	}
	if unix.Geteuid() != 0 {
		t.Skip("needs root: slack of timers")
	}
	calmMonitor()
	want := strconv.FormatInt(monitorSlack.Nanoseconds(), 10)
	for thread, late := range map[int]bool{tid: true, os.Getpid(): false} {
		got, err := os.ReadFile(slackOf(thread))
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.TrimSpace(string(got)); (text == want) != late {
			t.Errorf("thread %d, monitor %d: slack %s ns", thread, tid, text)
		}
	}
}
