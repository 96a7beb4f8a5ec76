package sample

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/wire"
)

// TestDump pins the format byte by byte. The golden file is an annotated dump,
// so a change of format shows in review as the fields that moved.
func TestDump(t *testing.T) {
	checkDump(t, three(), "testdata/three.dump")
}

// TestDumpTouched pins what first touches add to the format, and that a recording
// without any has the bytes that it had before there were some.
func TestDumpTouched(t *testing.T) {
	checkDump(t, touched(), "testdata/touched.dump")
	if b := three().Encode(); string(b[:4]) != "bfr2" {
		t.Errorf("a recording without first touches begins with %q", b[:4])
	}
}

// touched is three with first touches.
func touched() *Recording {
	r := three()
	c := r.Counts[0]
	app, lib := c.Image(ImageID{Build: id(0xb1, 0xd0)}), c.Image(ImageID{Path: "/lib/libc.so.6"})
	c.TouchStack([]Frame{{app, 0x1140}, {app, 0x1234}, {Image: Unknown}}, 900)
	c.TouchStack([]Frame{{lib, 0x26d03}, {app, 0x1234}}, 350)
	c.Touch(app, 0x1139, MaxFirst)
	c.Touch(app, 0x1200, MaxFirst+1) // too late to be one
	return r
}

// checkDump compares the dump of r with a golden file.
func checkDump(t *testing.T, r *Recording, golden string) {
	t.Helper()
	testtool.Golden(t, golden, Dump(r.Encode()))
}

func TestDumpOfMalformed(t *testing.T) {
	b := three().Encode()
	got := Dump(seal(b[:len(b)-1]))
	if want := []byte("records: malformed recording\n"); !bytes.HasSuffix(got, want) {
		t.Errorf("dump does not end in %q:\n%s", want, got)
	}
}

// A file builds the bytes of a recording field by field.
type file struct{ encoder }

func newFile() *file { return &file{encoder{Writer: wire.Writer{B: make([]byte, headerSize)}}} }

// put appends integers, strings, and build IDs.
func (f *file) put(fields ...any) *file {
	for _, v := range fields {
		switch v := v.(type) {
		case int:
			f.Int(v)
		case uint64:
			f.Uint(v)
		case string:
			f.String(v)
		case BuildID:
			f.B = append(f.B, v[:]...)
		case []byte:
			f.B = append(f.B, v...)
		default:
			panic(fmt.Sprintf("put(%T)", v))
		}
	}
	return f
}

// head is a file up to and with the weight, of one Counts.
func head() *file {
	return newFile().put(1, "x86_64", "", 0, 0, 0, "", 0, "cycles", 0, "cycles", 0)
}

func TestDecodeMalformed(t *testing.T) {
	none := func(f *file) []byte { return f.B }
	a, b := id(0xa), id(0xb)
	// two images with a sample at 8 each, and then the places
	images := func() *file {
		return head().put(0, 2, a, "/a", 1, 8, 1, b, "/b", 1, 8, 1)
	}
	// one image with a sample at 8, and then its first touches
	touches := func() *file { return head().put(0, 1, a, "/a", 1, 8, 1) }
	touchSeal := func(b []byte) []byte {
		copy(b, magicTouched)
		return seal(b)
	}
	observedSeal := func(b []byte) []byte {
		copy(b, magicObserved)
		return seal(b)
	}
	pathSeal := func(b []byte) []byte {
		copy(b, magicPaths)
		return seal(b)
	}
	processSeal := func(b []byte) []byte {
		copy(b, magicProcesses)
		return seal(b)
	}
	targetSeal := func(b []byte) []byte {
		copy(b, magicTargets)
		return seal(b)
	}
	// one image with a sample at 8, one place, and then paths
	paths := func() *file { return touches().put(0, 0, 0, 1, 1, 8, 0, 0, 0) }
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "offset 0x0: magic"},
		{"other magic", []byte("bfc2\x00\x00\x00\x00\x00"), "offset 0x0: magic"},
		{"other version", []byte("bfr1\x00\x00\x00\x00\x00"), `offset 0x0: version "bfr1", want "bfr2"`},
		{"newer version", []byte("bfri\x00\x00\x00\x00\x00"), `offset 0x0: version "bfri", this backfeed reads up to "bfrh": written by a newer backfeed`},
		{"no checksum", []byte("bfr2\x00\x00"), "offset 0x4: checksum: malformed recording, broken off or changed since it was written"},
		{"wrong checksum", []byte("bfr2\x00\x00\x00\x00\x00"), "offset 0x4: checksum: malformed recording, broken off or changed since it was written"},
		{"nothing", seal(none(newFile())), "offset 0x8: counts"},
		{"too many counts", seal(none(newFile().put(1 << 40))), "offset 0x8: counts"},
		{"bytes at the end", seal(none(newFile().put(0, 7))), "offset 0x9: end of file"},
		{"long form of an integer", seal(none(newFile().put([]byte{0x80, 0}))), "offset 0x8: counts"},
		{"integer of 11 bytes", seal(none(newFile().put(bytes.Repeat([]byte{0xff}, 11)))), "offset 0x8: counts"},
		{"string without end", seal(none(newFile().put(1, 200, make([]byte, 100)))), "offset 0x9: architecture"},
		{"family too large", seal(none(newFile().put(1, "", "", uint64(math.MaxUint64), make([]byte, 20)))), "offset 0xb: family"},
		{"loss of none", seal(none(head().put(1, "guest", 0, 0, 0, 0, 0, 0))), "offset 0x2d: lost samples"},
		{"losses unsorted", seal(none(head().put(2, "vdso", 1, "guest", 1, 0, 0, 0, 0, 0))), "offset 0x2d: order of losses"},
		{"loss twice", seal(none(head().put(2, "vdso", 1, "vdso", 1, 0, 0, 0, 0, 0))), "offset 0x2d: order of losses"},
		{"image unsorted", seal(none(head().put(0, 2, b, "/b", 0, a, "/a", 0, 0, 0, 0, 0))), "offset 0x40: order of images"},
		{"image twice", seal(none(head().put(0, 2, b, "/a", 0, b, "/b", 0, 0, 0, 0, 0))), "offset 0x40: order of images"},
		{"image without name", seal(none(head().put(0, 1, BuildID{}, "", 0, 0, 0, 0, 0))), "offset 0x28: order of images"},
		{"too many images", seal(none(head().put(0, 9, make([]byte, 100)))), "offset 0x27: images"},
		{"place twice", seal(none(head().put(0, 1, a, "", 2, 8, 1, 0, 1, 0, 0, 0, 0))), "offset 0x40: file offset"},
		{"offset overflows", seal(none(head().put(0, 1, a, "", 2, 8, 1, uint64(math.MaxUint64), 1, 0, 0, 0, 0))), "offset 0x40: file offset"},
		{"no samples", seal(none(head().put(0, 1, a, "", 1, 8, 0, 0, 0, 0, 0))), "offset 0x3f: samples"},
		{"place of no image", seal(none(images().put(1, 3, 8, 1, 1, 0, 0, 1, 0, 0))), "offset 0x5d: image"},
		{"unknown place with offset", seal(none(images().put(1, 0, 8, 1, 1, 0, 0, 1, 0, 0))), "offset 0x5d: place"},
		{"place unused", seal(none(images().put(1, 1, 8, 0, 0, 0))), "offset 0x62: place that nothing refers to"},
		{"stack of a missing place", seal(none(images().put(1, 1, 8, 1, 1, 1, 0, 1, 0, 0))), "offset 0x61: frame"},
		{"top of a missing place", seal(none(images().put(1, 1, 8, 1, 1, 0, 1, 1, 0, 0))), "offset 0x62: top"},
		{"stack of no samples", seal(none(images().put(1, 1, 8, 1, 1, 0, 0, 0, 0, 0))), "offset 0x63: samples of stack"},
		{"stack twice", seal(none(images().put(1, 1, 8, 2, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0))), "offset 0x64: order of stacks"},
		{"stack too deep", seal(none(images().put(1, 1, 8, 1, 90, 0, 0, 1, 0, 0))), "offset 0x60: frames"},
		{"stack without frames", seal(none(images().put(1, 1, 8, 1, 0, 0, 1, 0, 0))), "offset 0x9: cycles: stack 0: 0 frames"},
		{"stack without sample", seal(none(images().put(1, 1, 9, 1, 1, 0, 0, 1, 0, 0))), "offset 0x9: cycles: image /a"},
		{"branch twice", seal(none(images().put(1, 1, 9, 0, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0))), "offset 0x65: order of branches"},
		{"branch of no records", seal(none(images().put(1, 1, 9, 0, 1, 0, 0, 0, 0, 0))), "offset 0x63: records"},
		{"more mispredicted", seal(none(images().put(1, 1, 9, 0, 1, 0, 0, 1, 2, 0))), "offset 0x9: cycles: branch"},
		{"range across images", seal(none(images().put(2, 1, 9, 1, 9, 0, 0, 1, 0, 1, 1))), "offset 0x64: range"},
		{"range of the unknown", seal(none(images().put(1, 0, 0, 0, 0, 1, 0, 0, 1))), "offset 0x9: cycles: range"},
		{"range twice", seal(none(images().put(1, 1, 9, 0, 0, 2, 0, 0, 1, 0, 0, 1))), "offset 0x65: range"},
		{"counts twice", seal(none(newFile().put(2, make([]byte, 34)))), "offset 0x1a: order of counts"},
		{"touches of nobody", touchSeal(none(newFile().put(0))), "offset 0x9: first touches"},
		{"no touches", touchSeal(none(touches().put(0, 0, 0, 0, 0))), "offset 0x47: first touches"},
		{"too many touches", touchSeal(none(touches().put(40, 0, 0, 0, 0))), "offset 0x42: first touches"},
		{"late touch", touchSeal(none(touches().put(1, 8, MaxFirst+1, 0, 0, 0, 0))), "offset 0x44: first touch"},
		{"touch twice", touchSeal(none(touches().put(2, 8, 7, 0, 9, 0, 0, 0, 0))), "offset 0x45: file offset"},
		{"observed counts of nobody", observedSeal(none(newFile().put(0))), "offset 0x9: observed counts"},
		{"no observed counts", observedSeal(none(touches().put(0, 0, 0, 0, 0, 0, 0))), "offset 0x49: observed counts"},
		{"too many counted", observedSeal(none(touches().put(0, 40, 0, 0, 0, 0, 0))), "offset 0x43: places counted"},
		{"counted twice", observedSeal(none(touches().put(0, 2, 8, 7, 0, 7, 0, 0, 0, 0, 0))), "offset 0x46: file offset"},
		{"too many probed", observedSeal(none(touches().put(0, 0, 2, make([]byte, 18)))), "offset 0x44: places probed"},
		{"probed in no window", observedSeal(none(touches().put(0, 0, 1, make([]byte, 20)))), "offset 0x46: windows"},
		{"probed twice", observedSeal(none(touches().put(0, 0, 2, 8, 1, make([]byte, 8), 0, 1, make([]byte, 20)))), "offset 0x4f: file offset"},
		{"runs of no time", observedSeal(none(touches().put(0, 0, 1, 8, 1, 0, 5, make([]byte, 6), 0, 0, 0, 0))), "offset 0x9: cycles: image /a"},
		{"paths of nobody", pathSeal(none(newFile().put(0))), "offset 0x9: paths"},
		{"no paths", pathSeal(none(touches().put(0, 0, 0, 0, 0, 0, 0, 0))), "offset 0x4a: paths"},
		{"too many paths", pathSeal(none(paths().put(2, make([]byte, 6)))), "offset 0x4b: paths"},
		{"rank too large", pathSeal(none(paths().put(1, uint64(MaxRank+1), 1, 1, 0, 0))), "offset 0x4c: rank"},
		{"path of no branch", pathSeal(none(paths().put(1, 1, 1, 0, 0, 0))), "offset 0x4f: place that nothing refers to"},
		{"path too long", pathSeal(none(paths().put(1, 1, 1, MaxPathBranches+1, make([]byte, 2*MaxPathBranches+2)))), "offset 0x4c: path"},
		{"branch from a missing place", pathSeal(none(paths().put(1, 1, 1, 1, 2, 0))), "offset 0x4f: source"},
		{"branch to before the first place", pathSeal(none(paths().put(1, 1, 1, 1, 0, 1))), "offset 0x50: target"},
		{"processes of an image twice", processSeal(none(head().put(0, 2, b, "/a", 1, 0, 0, 0, 0, 0, b, "/b", 1, 0, 0, 0, 0, 0))), "offset 0x45: order of images"},
		{"processes of nobody", processSeal(none(newFile().put(0))), "offset 0x9: processes"},
		{"no processes", processSeal(none(head().put(0, 1, a, "/a", 0, 1, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))), "offset 0x4d: processes"},
		{"paths out of order", pathSeal(none(paths().put(2, 1, 2, 1, 0, 0, 0, 1, 1, 0, 0))), "offset 0x9: cycles: path 1"},
		{"targets of nobody", targetSeal(none(newFile().put(0))), "offset 0x9: targets"},
		{"no targets", targetSeal(none(paths().put(1, 1, 1, 1, 0, 0, 0))), "offset 0x52: targets"},
		{"too many targets", targetSeal(none(paths().put(0, 2, make([]byte, 3)))), "offset 0x4c: targets"},
		{"target of no execution", targetSeal(none(paths().put(0, 1, 0, 0, 0))), "offset 0x4d: executions"},
		{"target twice", targetSeal(none(paths().put(0, 2, 0, 0, 1, 0, 0, 1))), "offset 0x50: order of targets"},
		{"target in a missing place", targetSeal(none(paths().put(0, 1, 0, 1, 1))), "offset 0x4e: target"},
		{"weight of nothing", seal(none(newFile().put(1, make([]byte, 10), 5, make([]byte, 6)))), "offset 0x9: : weight 5"},
	} {
		_, err := Decode(tt.b)
		if !errors.Is(err, ErrFormat) || !bytes.HasPrefix([]byte(fmt.Sprint(err)), []byte(tt.want)) {
			t.Errorf("%s: got error %q, want %q", tt.name, err, tt.want)
		}
	}
}

// TestTruncated: no beginning of a recording is one.
func TestTruncated(t *testing.T) {
	b := three().Encode()
	for n := range b {
		short := bytes.Clone(b[:n])
		if n >= headerSize {
			seal(short)
		}
		if _, err := Decode(short); !errors.Is(err, ErrFormat) {
			t.Errorf("first %d bytes of %d: got error %v", n, len(b), err)
		}
	}
}

// random returns a recording with so many places of each kind, and everything
// that can be equal to that of another one often so.
func random(rnd *rand.Rand, places int) *Recording {
	r := &Recording{}
	for range 1 + rnd.IntN(2) {
		cpu := CPU{Arch: "x86_64", Family: 6, Model: rnd.IntN(2)}
		c := NewCounts(cpu, Event{Name: "cycles", Unit: "cycles"})
		var frames []Frame
		for range 1 + rnd.IntN(4) {
			im := ImageID{Path: fmt.Sprintf("/lib/%d", rnd.IntN(3))}
			if rnd.IntN(2) == 0 {
				im.Build = id(byte(1 + rnd.IntN(3)))
			}
			i := c.Image(im)
			for range rnd.IntN(places + 1) {
				f := Frame{i, Offset(rnd.IntN(4 * places))}
				if rnd.IntN(4) == 0 {
					c.AddReplayed(i, f.Off, randomReplayed(rnd))
				}
				n := 1 + rnd.Uint64N(99)
				c.AddSample(i, f.Off, n)
				c.Weight += n * 1000
				frames = append(frames, f)
			}
		}
		if rnd.IntN(9) == 0 {
			c.Weight = 0
		}
		c.Lose([]Loss{LostKernel, LostDropped}[rnd.IntN(2)], rnd.Uint64N(2)*uint64(c.Weight/1000))
		if c.Delivered() == 0 {
			c.Weight = 0
		}
		frames = append(frames, Frame{Image: Unknown})
		pick := func() Frame { return frames[rnd.IntN(len(frames))] }
		for _, f := range frames[:len(frames)-1] {
			if rnd.IntN(2) == 0 {
				stack := []Frame{f}
				for range rnd.IntN(5) {
					stack = append(stack, pick())
				}
				c.AddStackTop(stack, pick(), 1)
			}
			b := Branch{pick(), pick()}
			c.AddBranch(b, 1+rnd.Uint64N(9), rnd.Uint64N(2))
			c.AddRange(Range{f.Image, f.Off, f.Off + Offset(rnd.IntN(8))}, 1)
		}
		if rnd.IntN(2) == 0 {
			for _, f := range frames[:len(frames)-1] {
				c.TouchStack([]Frame{f, pick()}, rnd.Uint64N(2*MaxFirst))
			}
		}
		for range rnd.IntN(2) * rnd.IntN(4) {
			p := Path{Rank: rnd.Uint64N(4), Insts: rnd.Uint64N(3)}
			for range 1 + rnd.IntN(3) {
				p.Branches = append(p.Branches, Branch{pick(), pick()})
			}
			c.AddPaths([]Path{p})
		}
		if len(c.Images) > 0 && rnd.IntN(2) == 0 {
			c.AddProcesses(rnd.IntN(len(c.Images)), rnd.Uint64N(9))
		}
		if rnd.IntN(2) == 0 {
			randomSplit(rnd, c)
		}
		for range rnd.IntN(2) * rnd.IntN(4) {
			c.AddTarget(Branch{pick(), pick()}, 1+rnd.Uint64N(9))
		}
		for range rnd.IntN(2) * places {
			f, n := pick(), rnd.Uint64N(1000)
			if f.Image == Unknown {
				continue
			}
			c.AddCounted(f.Image, f.Off, n)
			c.AddFaults(f.Image, f.Off, n/2)
			c.AddProbed(f.Image, f.Off+1, Probed{Windows: 1 + n, Covered: 1 + 1000*n, Runs: n, Variance: Square{n, n},
				Outcomes: 2 + n, Taken: n / 2, Spread: Square{Lo: n}})
		}
		r.Add(c)
	}
	for range rnd.IntN(2) * rnd.IntN(MaxRuns) {
		run := Run{Began: rnd.Uint64N(9), Host: "h", Usage: Usage{User: rnd.Uint64N(3)}}
		if rnd.IntN(2) == 0 {
			run.Command = []string{"app", "-x"}
		}
		r.AddRun(run)
	}
	return r
}

// randomSplit says of some samples of c who took them, and when, over a time of any length.
func randomSplit(rnd *rand.Rand, c *Counts) {
	for left := c.Total; left > 0 && rnd.IntN(9) > 0; {
		n := 1 + rnd.Uint64N(left)
		c.AddOrigin(Origin{Process: "app", Thread: fmt.Sprint("t", rnd.IntN(5))}, n)
		c.AddProcessor(rnd.IntN(4), n)
		left -= n
	}
	span := uint64(LeastSlice) << rnd.IntN(12)
	at := func() uint64 { return c.SliceAt(1_700_000_000_000_000_000 + rnd.Uint64N(span)) }
	for _, s := range c.Stacks {
		if rnd.IntN(2) == 0 {
			c.AddSample(s.Frames[0].Image, s.Frames[0].Off, 1)
			c.AddStackAt(s.Frames, s.Top, at(), 1)
		}
	}
	for i, ic := range c.Images {
		for off := range ic.At {
			if rnd.IntN(2) == 0 {
				c.AddSample(i, off, 1)
				c.AddMoment(i, off, at(), 1)
			}
		}
	}
	if n := c.Lost[LostKernel]; n > 0 {
		c.LoseAt(at(), LostKernel, 1+rnd.Uint64N(n))
	}
}

func check(t *testing.T, r *Recording) {
	t.Helper()
	for _, c := range r.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestMerge: sums of recordings have equal bytes in any order and grouping, on
// the way through files or not, and lose no sample.
func TestMerge(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rs := make([]*Recording, 2+rnd.IntN(4))
		var samples uint64
		for i := range rs {
			rs[i] = random(rnd, 8)
			check(t, rs[i])
			samples += rs[i].Samples()
		}
		sum := Merge(rs...)
		check(t, sum)
		if got := sum.Samples(); got != samples {
			t.Errorf("seed %d: %d samples, %d after Merge", seed, samples, got)
		}
		want := sum.Encode()

		rnd.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		k := rnd.IntN(len(rs) + 1)
		stored, err := Decode(Merge(rs[:k]...).Encode())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := Merge(Merge(rs[k:]...), stored).Encode(); !bytes.Equal(got, want) {
			t.Errorf("seed %d: another order gives\n%s\nwant\n%s", seed, Dump(got), Dump(want))
		}
		if got := Merge(&Recording{}, sum).Encode(); !bytes.Equal(got, want) {
			t.Errorf("seed %d: adding nothing changed something", seed)
		}
	}
}

// TestMergeKeeps: Merge leaves its arguments as they were.
func TestMergeKeeps(t *testing.T) {
	r, before := three(), three().Encode()
	sum := Merge(r, r)
	sum.Counts[0].AddSample(0, 1, 1)
	sum.Counts[0].Stacks[0].Frames[0].Off++
	if !bytes.Equal(r.Encode(), before) {
		t.Errorf("Merge changed its argument:\n%s", Dump(r.Encode()))
	}
}

// FuzzDecode: any bytes give an error, or a recording with the same bytes.
// Resealing first lets the fuzzer past the checksum, to the code that matters.
func FuzzDecode(f *testing.F) {
	f.Add(three().Encode())
	f.Add(touched().Encode())
	f.Add(exact().Encode())
	f.Add(walked().Encode())
	f.Add(withPaths().Encode())
	f.Add(withTargets().Encode())
	f.Add(withReplayed().Encode())
	f.Add(withProcesses().Encode())
	f.Add(clocked().Encode())
	f.Add(scaledUp().Encode())
	f.Add(withSplit().Encode())
	f.Add(withOff().Encode())
	f.Add((&Recording{}).Encode())
	for seed := range uint64(4) {
		f.Add(random(rand.New(rand.NewPCG(seed, 2)), 4).Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerSize {
			b = seal(bytes.Clone(b))
		}
		r, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		check(t, r)
		if again := r.Encode(); !bytes.Equal(again, b) {
			t.Fatalf("round trip gives\n%s\nwant\n%s", Dump(again), Dump(b))
		}
		var sum Sum
		for range 2 {
			if _, err := sum.Decode(b); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := sum.Recording().Encode(), Merge(r, r).Encode(); !bytes.Equal(got, want) {
			t.Fatalf("added to itself it gives\n%s\nwant\n%s", Dump(got), Dump(want))
		}
	})
}

// large is a recording as one of a big program is: many places, deep stacks.
func large(seed uint64) *Recording {
	rnd := rand.New(rand.NewPCG(seed, 3))
	c := NewCounts(CPU{}, Event{Name: "cycles"})
	i := c.Image(ImageID{Path: "/usr/bin/large"})
	off := Offset(0x1000)
	for range 50000 {
		off += Offset(1 + rnd.ExpFloat64()*40)
		c.AddSample(i, off, 1+uint64(rnd.ExpFloat64()*5))
		stack := []Frame{{i, off}}
		for range rnd.IntN(30) {
			stack = append(stack, Frame{i, Offset(0x1000 + 64*rnd.IntN(2000))})
		}
		c.AddStackTop(stack, Frame{i, Offset(0x1000 + 64*rnd.IntN(2000))}, 1)
	}
	return &Recording{Counts: []*Counts{c}}
}

func frames(r *Recording) (n int) {
	for _, c := range r.Counts {
		for _, s := range c.Stacks {
			n += len(s.Frames)
		}
	}
	return n
}

func BenchmarkEncode(b *testing.B) {
	r := large(1)
	var file []byte
	for b.Loop() {
		file = r.Encode()
	}
	b.ReportMetric(float64(b.N*frames(r))/b.Elapsed().Seconds(), "frames/s")
	b.ReportMetric(float64(len(file))/float64(frames(r)), "B/frame")
}

func BenchmarkDecode(b *testing.B) {
	r := large(1)
	file := r.Encode()
	for b.Loop() {
		if _, err := Decode(file); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*frames(r))/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkSum adds up what hosts that run the same program have stored: the same places, of which some hosts lack some.
func BenchmarkSum(b *testing.B) {
	var files [][]byte
	samples := uint64(0)
	for host := range uint64(4) {
		r := large(1)
		c := NewCounts(CPU{}, Event{Name: "cycles"})
		i := c.Image(ImageID{Path: "/usr/bin/large"})
		for k, s := range r.Counts[0].Stacks {
			if uint64(k)%5 != host {
				c.AddSample(i, s.Frames[0].Off, s.N)
				c.AddStackTop(s.Frames, s.Top, s.N)
			}
		}
		r = &Recording{Counts: []*Counts{c}}
		files, samples = append(files, r.Encode()), samples+r.Samples()
	}
	b.ReportAllocs()
	for b.Loop() {
		var sum Sum
		for range 8 {
			for _, file := range files {
				if _, err := sum.Decode(file); err != nil {
					b.Fatal(err)
				}
			}
		}
		sum.Recording()
	}
	b.ReportMetric(float64(b.N)*8*float64(samples)/b.Elapsed().Seconds(), "samples/s")
}

func BenchmarkMerge(b *testing.B) {
	x, y := large(1), large(2)
	for name, rs := range map[string][]*Recording{"one": {x}, "two": {x, y}} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for _, r := range rs {
				n += frames(r)
			}
			for b.Loop() {
				Merge(rs...)
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
