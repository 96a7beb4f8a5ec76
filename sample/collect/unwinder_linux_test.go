//go:build amd64 || arm64

package collect

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
	"unsafe"

	"backfeed/internal/testtool"
	"backfeed/sample/unwind"
)

// TestDecodeStack: return addresses follow a call, no more of them than there may be.
func TestDecodeStack(t *testing.T) {
	head := make([]byte, unsafe.Sizeof(call{}))
	binary.NativeEndian.PutUint64(head, 0x1234) // ip
	for _, tt := range []struct {
		name  string
		bytes []byte
		pcs   []uint64
		ok    bool
	}{
		{"none", head, []uint64{}, true},
		{"two", binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(slices.Clone(head), 5), 6), []uint64{5, 6}, true},
		{"a call cut short", head[:len(head)-8], nil, false},
		{"an address cut short", append(slices.Clone(head), 1, 2, 3), nil, false},
		{"too many", append(slices.Clone(head), make([]byte, 8*(MaxFrames+1))...), nil, false},
	} {
		p, err := decodeStack(tt.bytes)
		if (err == nil) != tt.ok || err == nil && (p.IP != 0x1234 || p.n != 1 || !p.unwound || !slices.Equal(p.pcs, tt.pcs)) {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
}

// TestUnwinderRoom: of images that nothing runs any more, those unused for longest make room; where there is
// none, it is said, and tried again no sooner than in a minute.
func TestUnwinderRoom(t *testing.T) {
	testtool.Live(t, "loads maps")
	s := system(t, SystemOptions{Frequency: 1, Callers: CallersOfAll, Frames: MaxFrames})
	asked := 0
	size := maxTableRows
	u := newUnwinder(func(*os.File, int) ([]unwind.Row, error) {
		asked++
		rows := make([]unwind.Row, size)
		for i := range rows {
			rows[i] = unwind.Row{Off: uint32(i), Kind: unwind.SP, CFA: 1}
		}
		return rows, nil
	}, 1, &s.sampler.bpf.samplerMaps)
	defer u.close()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	time.Sleep(200 * time.Millisecond) // until it has its libraries
	pid, now := uint32(cmd.Process.Pid), time.Now()
	u.tell(pid, 1, now)
	images := len(u.procs[pid].images)
	switch {
	case asked < 3:
		t.Skipf("sleep has %d images of code, want three", asked)
	case images != 2 || u.rows != 2*maxTableRows || u.shed != uint64(asked-2):
		t.Fatalf("%d of %d images have rows, %d rows in all, shed %d: want room for two", images, asked, u.rows, u.shed)
	}
	before := asked
	u.tell(pid, 1, now.Add(tryAgain/2))
	if asked != before {
		t.Errorf("what was dropped was read again after %v", tryAgain/2)
	}
	cmd.Process.Kill()
	cmd.Wait()
	u.sweep(now)
	if len(u.procs) != 0 {
		t.Fatal("a process that has ended is remembered")
	}
	size = 10
	self := exec.Command("sleep", "60")
	if err := self.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { self.Process.Kill(); self.Wait() }()
	time.Sleep(200 * time.Millisecond)
	u.evict(maxUnwindRows-10, 1)
	if u.rows > 10 || len(u.free) < maxTables-1 {
		t.Errorf("%d rows are left, and %d tables are free", u.rows, len(u.free))
	}
	u.tell(uint32(self.Process.Pid), 1, now.Add(2*tryAgain))
	p := u.procs[uint32(self.Process.Pid)]
	if p == nil || len(p.images) < 3 || u.rows != 10*len(p.images) {
		t.Errorf("with room again: %+v, %d rows", p, u.rows)
	}
}

// TestUnwinderPause: after a process asked, others are looked for after ten samples; else, and at low rates, every tenth of a second.
func TestUnwinderPause(t *testing.T) {
	for _, tt := range []struct {
		hz    int
		asked time.Duration
		want  time.Duration
	}{
		{1000, 0, 10 * time.Millisecond},
		{1000, time.Second, 10 * time.Millisecond},
		{1000, 2 * time.Second, answerEvery},
		{200, 0, 50 * time.Millisecond},
		{19, 0, answerEvery},
	} {
		if got := (&unwinder{hz: tt.hz}).pause(tt.asked); got != tt.want {
			t.Errorf("%d Hz, %v after one asked: %v, want %v", tt.hz, tt.asked, got, tt.want)
		}
	}
}
