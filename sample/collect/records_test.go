package collect

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// raw builds a record of the kernel from its fields.
func raw(typ uint32, misc uint16, fields ...any) []byte {
	b := binary.NativeEndian.AppendUint32(nil, typ)
	b = binary.NativeEndian.AppendUint16(b, misc)
	b = append(b, 0, 0)
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = binary.NativeEndian.AppendUint32(b, uint32(f))
		case uint64:
			b = binary.NativeEndian.AppendUint64(b, f)
		case []byte:
			b = append(b, f...)
		case string:
			b = append(b, f...)
			b = append(b, make([]byte, 8-len(f)%8)...)
		}
	}
	binary.NativeEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

// id is the sample_id that ends every record but samples.
func id(pid int, time uint64) []byte {
	return raw(0, 0, pid, pid, time)[headerSize:]
}

func rawSample(pid int, time, ip uint64, chain ...uint64) []byte {
	fields := []any{ip, pid, pid, time, uint64(1000), uint64(len(chain))}
	for _, pc := range chain {
		fields = append(fields, pc)
	}
	return raw(typeSample, miscUser, fields...)
}

// withTop adds a dump of the stack to a sample.
func withTop(b []byte, fields ...any) []byte {
	b = append(b, raw(0, 0, fields...)[headerSize:]...)
	binary.NativeEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

func rawMmap(pid int, time, start, size, off uint64, path string) []byte {
	return raw(typeMmap2, miscUser, pid, pid, start, size, off, 8, 1, uint64(77), uint64(0), 5, 2, path, id(pid, time))
}

func TestDecode(t *testing.T) {
	build := make([]byte, 20)
	build[0], build[19] = 0xab, 0xcd
	for _, tt := range []struct {
		name string
		b    []byte
		want any
	}{
		{"sample", rawSample(7, 5, 0x1234, contextUser, 0x1234, 0x5678),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, chain: []uint64{contextUser, 0x1234, 0x5678}, branches: []branchRecord{}}},
		{"sample with stack", withTop(rawSample(7, 5, 0x1234), uint64(16), uint64(0x5678), uint64(0x9abc), uint64(16)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}, top: [2]uint64{0x5678, 0x9abc}}},
		{"sample at the end of a stack", withTop(rawSample(7, 5, 0x1234), uint64(16), uint64(0x5678), uint64(0), uint64(8)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}, top: [2]uint64{0x5678}}},
		{"sample with a stack out of memory", withTop(rawSample(7, 5, 0x1234), uint64(16), uint64(0x5678), uint64(0x9abc), uint64(0)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}}},
		{"sample without a stack", withTop(rawSample(7, 5, 0x1234), uint64(0)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}}},
		{"sample with link register", withTop(rawSample(7, 5, 0x1234), uint64(2), uint64(0x5678)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}, top: [2]uint64{0x5678}}},
		{"sample without link register", withTop(rawSample(7, 5, 0x1234), uint64(0)),
			sampleRecord{ip: 0x1234, pid: 7, tid: 7, period: 1000, branches: []branchRecord{}}},
		{"mapping with inode", rawMmap(7, 5, 0x1000, 0x2000, 0x400, "/bin/a"),
			mmapRecord{pid: 7, start: 0x1000, size: 0x2000, fileOff: 0x400, maj: 8, min: 1, inode: 77, prot: 5, path: "/bin/a"}},
		{"mapping with another event's mark", raw(typeMmap2, 1<<14, 7, 7, uint64(0x1000), uint64(0x2000), uint64(0), 254, 1, uint64(77), uint64(3), 5, 2, "/bin/a b", id(7, 5)),
			mmapRecord{pid: 7, start: 0x1000, size: 0x2000, maj: 254, min: 1, inode: 77, generation: 3, prot: 5, path: "/bin/a b"}},
	} {
		rec, err := splitRecord(tt.b, false)
		if err != nil || rec.time != 5 {
			t.Errorf("%s: time %d, %v; want 5", tt.name, rec.time, err)
		}
		var got any
		if rec.typ == typeSample {
			s := sampleRecord{branches: []branchRecord{}}
			err = decodeSample(rec.body, sampleLayout{link: strings.HasSuffix(tt.name, " link register"), top: strings.Contains(tt.name, " stack")}, &s)
			got = s
		} else {
			got, err = decodeMmap(rec.body)
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

// TestDecodeTruncated cuts a record of each type at every byte.
func TestDecodeTruncated(t *testing.T) {
	for name, b := range seeds() {
		for n := range len(b) {
			rec, err := splitRecord(b[:n], false)
			if err == nil && n >= headerSize+sampleIDSize+16 {
				continue // what is left may make sense; the fuzz target covers it
			}
			if err != nil && !errors.Is(err, errRecord) {
				t.Errorf("%s cut to %d bytes: %v, %v", name, n, rec, err)
			}
		}
	}
	b := rawSample(7, 5, 1)
	binary.NativeEndian.PutUint64(b[len(b)-8:], 1<<62) // a call chain that cannot be there
	rec, err := splitRecord(b, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeSample(rec.body, sampleLayout{branches: true}, new(sampleRecord)); !errors.Is(err, errRecord) {
		t.Errorf("call chain of 1<<62 addresses: %v", err)
	}
	for name, dump := range map[string][]any{
		"more than there is":   {uint64(16), uint64(1)},
		"no length of what is": {uint64(8), uint64(1)},
		"huge":                 {uint64(1 << 62), uint64(1), uint64(8)},
		"missing":              nil,
	} {
		rec, err := splitRecord(withTop(rawSample(7, 5, 1), dump...), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeSample(rec.body, sampleLayout{top: true}, new(sampleRecord)); !errors.Is(err, errRecord) {
			t.Errorf("stack, %s: %v", name, err)
		}
	}
}

func seeds() map[string][]byte {
	return map[string][]byte{
		"sample":   rawSample(7, 5, 0x1234, contextUser, 0x1234, 0x5678),
		"branches": raw(typeSample, miscUser, uint64(1), 7, 7, uint64(5), uint64(1000), uint64(0), uint64(1), uint64(2), uint64(3), uint64(1)),
		"stack":    withTop(rawSample(7, 5, 0x1234), uint64(16), uint64(0x5678), uint64(0x9abc), uint64(16)),
		"mapping":  rawMmap(7, 5, 0x1000, 0x2000, 0x400, "/bin/a"),
		"fork":     raw(typeFork, 0, 8, 7, 8, 7, uint64(5), id(7, 5)),
		"exit":     raw(typeExit, 0, 8, 7, 8, 7, uint64(5), id(8, 5)),
		"exec":     raw(typeComm, miscCommExec, 8, 8, "name", id(8, 5)),
		"lost":     raw(typeLost, 0, uint64(1), uint64(3), id(8, 5)),
		"throttle": raw(typeThrottle, 0, uint64(1), uint64(2), uint64(3), id(8, 5)),
	}
}

// FuzzRecord: any record gives an error, or counts that keep their promises.
func FuzzRecord(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b, true, false)
		f.Add(b, false, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, branches, top bool) {
		rec, err := splitRecord(b, false)
		if err != nil {
			return
		}
		ta := newTally()
		ta.layout = sampleLayout{branches: branches, top: top}
		ta.mapped(&mmapRecord{pid: 7, start: 0x1000, size: 0x10000, path: "/bin/a"})
		if err := ta.record(&rec); err != nil {
			return
		}
		if err := ta.counts.Check(); err != nil && ta.counts.Delivered() > 0 {
			t.Error(err)
		}
	})
}
