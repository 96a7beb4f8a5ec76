//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// An unwinder tells the programs that unwind stacks what they need: which code a process has mapped, and the
// rows of its images. It is asked by them for processes whose samples they have met. Until it has answered,
// and where it has no room, stacks are unwound by frame pointers.
type unwinder struct {
	read                  func(f *os.File, limit int) ([]unwind.Row, error)
	hz                    int // samples a second of a thread
	spaces, wants, tables *ebpf.Map
	vdso                  vdso

	mu     sync.Mutex
	images map[fileVersion]*unwoundImage
	procs  map[uint32]*unwoundProcess
	free   []uint32 // indices in tables that are not used
	rows   int      // of all images
	swept  time.Time
	shed   uint64
}

// An unwoundImage is an image whose rows were looked for.
type unwoundImage struct {
	rows  *ebpf.Map // nil if there are none
	index uint32    // in tables, if there are some
	n     int       // rows
	users int       // processes that have it mapped

	framesWithout bool      // its code keeps frame pointers where there is no row
	used          time.Time // since when it has no more of them
	again         time.Time // for want of room there are none: when to try again
}

// An unwoundProcess is one whose mappings the kernel's side was told.
type unwoundProcess struct {
	born   uint64
	read   time.Time
	stale  bool // there are new mappings since
	images []*unwoundImage
}

// Limits of what is kept in the kernel.
const (
	maxUnwindRows   = 8 << 20 // 64 MB; the C library has 23 thousand, gcc's cc1 430 thousand, libLLVM 2 million
	maxTableRows    = 1<<22 - 1
	maxTables       = 1024
	maxSpaces       = 1024 // processes at a time: 6 MB
	maxSpaceEntries = 255  // mappings with code of a process
	usualFrames     = 24   // of a stack, for the size of the ring
)

const (
	answerEvery = 100 * time.Millisecond
	// answerSoon is how many samples of a thread lie between two looks, for answerSoonFor after a process asked: each takes some 20 us.
	answerSoon    = 10
	answerSoonFor = time.Second
	reread        = time.Second // least time between two looks at a process that asks again
	sweepEvery    = time.Second
	tryAgain      = time.Minute // after there was no room
)

// The layouts of bpf/unwind.h.
type (
	codeMapping struct {
		Lo, Hi      uint64
		Page, Table uint32
	}
	codeSpace struct {
		Born, N  uint64
		Mappings [maxSpaceEntries]codeMapping
	}
)

// framesWithout marks tables of code that keeps frame pointers where there is no row.
const framesWithout = 1 << 31

// unwindingSizes makes room in the maps of the unwinder, if there is to be one.
func unwindingSizes(spec *ebpf.CollectionSpec, wanted bool) {
	n := map[string]uint32{samplerMapSpaces: maxSpaces, samplerMapWants: maxSpaces, samplerMapTables: maxTables}
	for name, n := range n {
		if wanted {
			spec.Maps[name].MaxEntries = n
		}
	}
}

func newUnwinder(read func(*os.File, int) ([]unwind.Row, error), hz int, m *samplerMaps) *unwinder {
	u := &unwinder{
		read: read, hz: hz, spaces: m.Spaces, wants: m.Wants, tables: m.Tables, vdso: readVDSO(),
		images: map[fileVersion]*unwoundImage{}, procs: map[uint32]*unwoundProcess{},
	}
	for i := range uint32(maxTables) {
		u.free = append(u.free, maxTables-1-i)
	}
	return u
}

// prepare reads the images that processes have mapped already, before the first of their samples asks for them.
func (u *unwinder) prepare(pids []int) {
	if u == nil {
		return
	}
	now := time.Now()
	for _, pid := range pids {
		maps, _ := mappedBy(pid) // what has ended meanwhile has nothing mapped
		for i := range maps {
			u.image(&maps[i], now)
		}
	}
}

// mappedBy returns which code a process has mapped.
func mappedBy(pid int) ([]mmapRecord, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMaps(f, pid)
}

// run answers until quit is closed. took is told around each piece of work.
func (u *unwinder) run(quit <-chan struct{}, takes func() func()) {
	timer := time.NewTimer(answerEvery)
	defer timer.Stop()
	asked := time.Now() // last
	for {
		select {
		case <-quit:
			return
		case now := <-timer.C:
			took := takes()
			if u.answer(now) > 0 {
				asked = now
			}
			took()
			timer.Reset(u.pause(now.Sub(asked)))
		}
	}
}

// pause returns when to look again whether processes ask, so long after one did: a process that lives for 50 ms, as compilers do, ends
// before answerEvery, and where one begins there are others mostly.
func (u *unwinder) pause(asked time.Duration) time.Duration {
	if asked > answerSoonFor {
		return answerEvery
	}
	return min(answerSoon*time.Second/time.Duration(u.hz), answerEvery)
}

// remapped says that a process has mapped code.
func (u *unwinder) remapped(pid int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if p := u.procs[uint32(pid)]; p != nil {
		p.stale = true
	}
}

// count fills in what the unwinder knows.
func (u *unwinder) count(c *Counters) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c.Shed, c.UnwindRows = u.shed, u.rows
	for _, im := range u.images {
		if im.rows == nil {
			continue
		}
		if info, err := im.rows.Info(); err == nil {
			n, _ := info.Memlock()
			c.MapBytes += n
		}
	}
}

// close frees all tables.
func (u *unwinder) close() {
	if u == nil {
		return
	}
	for _, im := range u.images {
		if im.rows != nil {
			im.rows.Close()
		}
	}
}

// answer tells of the processes that were asked for, and returns how many these were.
func (u *unwinder) answer(now time.Time) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.swept) >= sweepEvery {
		u.swept = now
		u.sweep(now)
	}
	asked := map[uint32]uint64{}
	var pid uint32
	var born uint64
	for it := u.wants.Iterate(); it.Next(&pid, &born); {
		asked[pid] = born
	}
	for pid, born := range asked {
		_ = u.wants.Delete(pid)
		if p := u.procs[pid]; p == nil || p.born != born || now.Sub(p.read) >= reread {
			u.tell(pid, born, now)
		}
	}
	for pid, p := range u.procs {
		if p.stale {
			u.tell(pid, p.born, now)
		}
	}
	return len(asked)
}

// sweep forgets processes that have ended.
func (u *unwinder) sweep(now time.Time) {
	for pid := range u.procs {
		if unix.Kill(int(pid), 0) == unix.ESRCH {
			u.forget(pid, now)
		}
	}
}

// forget lets go what a process had mapped.
func (u *unwinder) forget(pid uint32, now time.Time) {
	p := u.procs[pid]
	if p == nil {
		return
	}
	release(p.images, now)
	delete(u.procs, pid)
	_ = u.spaces.Delete(pid) // the kernel's side has done so mostly
}

// release lets go of images.
func release(images []*unwoundImage, now time.Time) {
	for _, im := range images {
		if im.users--; im.users == 0 {
			im.used = now
		}
	}
}

// tell says what code a process has mapped. One that has ended meanwhile tells nothing.
func (u *unwinder) tell(pid uint32, born uint64, now time.Time) {
	maps, err := mappedBy(int(pid))
	if err != nil || len(maps) == 0 {
		u.forget(pid, now)
		return
	}
	if len(maps) > maxSpaceEntries {
		u.shed++
		maps = maps[:maxSpaceEntries]
	}
	p := &unwoundProcess{born: born, read: now}
	s := codeSpace{Born: born, N: uint64(len(maps))}
	for i := range maps {
		m := &maps[i]
		s.Mappings[i] = codeMapping{Lo: m.start, Hi: m.start + m.size, Page: uint32(m.fileOff >> 12)}
		im := u.image(m, now)
		if im == nil || im.rows == nil {
			continue
		}
		im.users++
		p.images = append(p.images, im)
		s.Mappings[i].Table = im.index + 1
		if im.framesWithout {
			s.Mappings[i].Table |= framesWithout
		}
	}
	if err := u.spaces.Put(pid, &s); err != nil {
		u.shed++
		release(p.images, now)
		u.forget(pid, now)
		return
	}
	if old := u.procs[pid]; old != nil {
		release(old.images, now)
	}
	u.procs[pid] = p
}

// image returns what is known of a mapped file, or of the code that the kernel has mapped; nil if it is none, or out of reach.
func (u *unwinder) image(m *mmapRecord, now time.Time) *unwoundImage {
	kernels := u.vdso.is(m)
	if u.read == nil || m.inode == 0 && !kernels || m.fileOff+m.size > 1<<32 { // of which rows have the places
		return nil
	}
	version := fileVersion{} // of no file
	if !kernels {
		var ok bool
		if version, ok = versionMapped(m); !ok {
			return nil
		}
	}
	im := u.images[version]
	if im != nil && (im.again.IsZero() || now.Before(im.again)) {
		return im
	}
	var f *os.File
	if kernels {
		f, _ = u.vdso.file() // for want of memory there is none, and stacks end there
	} else {
		f = openMapped(m)
	}
	if f == nil {
		return nil
	}
	defer f.Close()
	if len(u.images) >= maxFiles {
		u.evict(0, 0)
	}
	im = u.load(f, now)
	u.images[version] = im
	return im
}

// load puts the rows of an image into the kernel.
func (u *unwinder) load(f *os.File, now time.Time) *unwoundImage {
	im := &unwoundImage{framesWithout: runtime.GOARCH == "arm64"} // of which nearly all keeps them (AAPCS64, 6.4.6)
	if e, err := sample.ReadELF(f); err == nil && e.Go {
		im.framesWithout = true
	}
	// What is malformed ends the rows: stacks end where there is none.
	rows, _ := u.read(f, maxTableRows)
	if len(rows) == 0 {
		return im
	}
	u.evict(len(rows), 1)
	if u.rows+len(rows) > maxUnwindRows || len(u.free) == 0 {
		u.shed++
		im.again = now.Add(tryAgain)
		return im
	}
	m, err := rowsMap(rows)
	index := u.free[len(u.free)-1]
	if err == nil {
		if err = u.tables.Put(index, m); err != nil {
			m.Close()
		}
	}
	if err != nil { // for want of memory
		u.shed++
		im.again = now.Add(tryAgain)
		return im
	}
	u.free = u.free[:len(u.free)-1]
	im.rows, im.index, im.n = m, index, len(rows)
	u.rows += len(rows)
	return im
}

// rowsMap makes a map of rows.
func rowsMap(rows []unwind.Row) (*ebpf.Map, error) {
	restore, err := liftMemlock()
	if err != nil {
		return nil, err
	}
	defer restore()
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "rows", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(unwind.Row{})),
		MaxEntries: uint32(len(rows)), Flags: unix.BPF_F_INNER_MAP,
	})
	if err != nil {
		return nil, err
	}
	keys := make([]uint32, len(rows))
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := m.BatchUpdate(keys, rows, nil); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// evict forgets images that no process has mapped, those that were used last coming last, until there is room for
// so many rows and tables. Of none, it forgets all that have no rows.
func (u *unwinder) evict(rows, tables int) {
	type unused struct {
		version fileVersion
		*unwoundImage
	}
	var all []unused
	for v, im := range u.images {
		switch {
		case im.rows == nil && rows == 0:
			delete(u.images, v)
		case im.rows != nil && im.users == 0:
			all = append(all, unused{v, im})
		}
	}
	slices.SortFunc(all, func(a, b unused) int { return a.used.Compare(b.used) })
	for _, im := range all {
		if u.rows+rows <= maxUnwindRows && len(u.free) >= tables {
			return
		}
		err := u.tables.Delete(im.index)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		im.rows.Close()
		u.free = append(u.free, im.index)
		u.rows -= im.n
		delete(u.images, im.version)
	}
}
