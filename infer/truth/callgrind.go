package truth

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/sample/bound"
)

// ErrFormat is wrapped by every error that blames exact counts rather than the
// disk they were read from.
var ErrFormat = errors.New("malformed exact counts")

// Counts are how often everything ran, counted exactly.
type Counts struct {
	Images map[string]*Image // by path; callgrind's "???" is code of no file
}

// An Image is how often the code of one image ran. What never ran is not in
// it.
type Image struct {
	Insts map[image.Addr]uint64 // executions of instructions, by address
	Jumps map[Transfer]uint64   // jumps, those taken only
	Calls map[Transfer]uint64   // calls within the image

	// Events are what callgrind's simulations of caches and branch prediction count, by
	// name and instruction: "D1mr", "Bcm". It is nil where there were none.
	Events map[string]map[image.Addr]uint64
}

// A Transfer leads from an instruction to the one that runs next.
type Transfer struct{ From, To image.Addr }

// Compare orders transfers by From, then To.
func (t Transfer) Compare(o Transfer) int {
	return cmp.Or(cmp.Compare(t.From, o.From), cmp.Compare(t.To, o.To))
}

// Image returns the counts of the image at path, which are empty if t had none.
func (t *Counts) Image(path string) *Image {
	if t.Images == nil {
		t.Images = map[string]*Image{}
	}
	it := t.Images[path]
	if it == nil {
		it = &Image{map[image.Addr]uint64{}, map[Transfer]uint64{}, map[Transfer]uint64{}, nil}
		t.Images[path] = it
	}
	return it
}

// Read reads what callgrind counted, made with --dump-instr=yes and
// --collect-jumps=yes, or the same as JSON: {path: {"insn": {address:
// executions}, "jump": [[from, to, taken]], "call": [[from, to, calls]]}}, with
// addresses like "0x401000". Either may be compressed with gzip.
func Read(r io.Reader) (*Counts, error) {
	in, r := bound.Stream(r)
	br := bufio.NewReader(r)
	if head, _ := br.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrFormat)
		}
		br = bufio.NewReader(in.Unpack(zr))
	}
	if head, _ := br.Peek(1); bytes.Equal(head, []byte{'{'}) {
		return readTruthJSON(br, in)
	}
	return readCallgrindText(br, in)
}

// maxCallgrindLine bounds a line, in bytes: names of C++ functions are long.
const maxCallgrindLine = 1 << 20

// readCallgrindText reads the format of chapter "Callgrind Format Specification"
// of Valgrind's manual, and beyond it what callgrind's dump.c really writes:
// jfi= and jfn= lines, and jcnd=TAKEN/EXECUTED.
func readCallgrindText(r io.Reader, in *bound.Input) (*Counts, error) {
	p := callgrindParser{in: in, names: map[string]string{}}
	p.startPart()
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxCallgrindLine)
	for sc.Scan() {
		p.line++
		if err := p.parse(strings.TrimSpace(sc.Text())); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", p.line, err, ErrFormat)
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes: %w", p.line+1, maxCallgrindLine, ErrFormat)
	} else if errors.Is(err, bound.ErrBeyond) {
		return nil, fmt.Errorf("line %d: %w: %w", p.line+1, err, ErrFormat)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line+1, err)
	}
	if p.pending != nil {
		return nil, fmt.Errorf("line %d: cut short after a call or jump: %w", p.line, ErrFormat)
	}
	if p.line == 0 {
		return nil, fmt.Errorf("empty file: valgrind stopped before it counted, and said why; debug information that it cannot read, objcopy -g leaves out: %w", ErrFormat)
	}
	if len(p.truth.Images) == 0 {
		return nil, fmt.Errorf("line %d: no instruction ran: %w", p.line, ErrFormat)
	}
	return &p.truth, nil
}

// A callgrindParser holds what the lines so far mean for the next ones.
type callgrindParser struct {
	truth Counts
	in    *bound.Input
	line  int

	positions []string // of a cost line: "instr", "line"
	instr     int      // index of "instr" in it; -1 if there is none
	event     int      // index of "Ir" among the costs; -1 if unknown
	events    []string // names of the costs
	sum       uint64   // of the instructions of this part
	inPart    bool     // cost lines were seen since the last header

	names   map[string]string // of objects, by compressed form "(1)"
	object  string            // where cost lines belong
	callee  string            // object of the next call; "" is the same
	last    image.Addr        // of the cost line before
	pending *pendingTransfer
}

// A pendingTransfer waits for the line that says where it comes from.
type pendingTransfer struct {
	call  bool
	to    image.Addr
	n     uint64
	local bool // within the image
}

// startPart sets what the header of each part says, to its defaults.
func (p *callgrindParser) startPart() {
	p.positions, p.instr, p.event, p.events = []string{"line"}, -1, -1, nil
	p.sum, p.inPart = 0, false
}

func (p *callgrindParser) parse(line string) error {
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line[0] >= '0' && line[0] <= '9' || strings.IndexByte("+-*", line[0]) >= 0:
		return p.cost(strings.Fields(line))
	}
	if p.pending != nil {
		return fmt.Errorf("%.20q between a call or jump and its source", line)
	}
	end := strings.IndexAny(line, ":=")
	if end < 0 {
		return fmt.Errorf("%.20q is neither a header, nor a position, nor costs", line)
	}
	key, value := line[:end], strings.TrimSpace(line[end+1:])
	if line[end] == ':' {
		return p.header(key, value)
	}
	return p.spec(key, value)
}

func (p *callgrindParser) header(key, value string) error {
	switch key {
	case "totals":
		return p.checkTotals(strings.Fields(value))
	case "positions":
		p.newPart()
		p.positions = strings.Fields(value)
		if p.instr = slices.Index(p.positions, "instr"); p.instr < 0 {
			return errors.New("positions: no addresses of instructions: made without --dump-instr=yes")
		}
	case "events":
		p.newPart()
		p.events = strings.Fields(value)
		if p.event = slices.Index(p.events, "Ir"); p.event < 0 {
			return errors.New("events: no Ir, the number of executions, among them")
		}
	}
	return nil
}

// newPart begins a part with its first header line after cost lines.
func (p *callgrindParser) newPart() {
	if p.inPart {
		p.startPart()
	}
}

// checkTotals holds the cost lines of a part to their sum, so that nothing in
// between can be missing.
func (p *callgrindParser) checkTotals(costs []string) error {
	if p.event < 0 || p.event >= len(costs) {
		return nil
	}
	n, err := strconv.ParseUint(costs[p.event], 10, 64)
	if err != nil {
		return fmt.Errorf("totals: %w", err)
	}
	if n != p.sum {
		return fmt.Errorf("totals: %d executions, but the lines before have %d", n, p.sum)
	}
	return nil
}

// spec reads a line "key=value".
func (p *callgrindParser) spec(key, value string) (err error) {
	switch key {
	case "ob":
		p.object, err = p.name(value)
	case "cob":
		p.callee, err = p.name(value)
	case "calls":
		err = p.transfer(value, true)
		p.callee = ""
	case "jump", "jcnd":
		err = p.transfer(value, false)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil // others name files and functions
}

// name reads a name that may be compressed: "(1) path" defines "(1)".
func (p *callgrindParser) name(value string) (string, error) {
	id, name, ok := strings.Cut(value, ")")
	if !ok || len(id) < 2 || id[0] != '(' || id[1] < '0' || id[1] > '9' {
		return value, nil
	}
	if name = strings.TrimSpace(name); name != "" {
		if err := p.in.Hold(int64(len(id)+len(name)) + truthEntry); err != nil {
			return "", err
		}
		p.names[id] = strings.Clone(name) // a part of the line
	}
	name, ok = p.names[id]
	if !ok {
		return "", fmt.Errorf("%s) is not defined", id)
	}
	return name, nil
}

// transfer reads a number and a target, such as "1 0x401000 23". A jump has two
// numbers if it is conditional, taken and executed: "1/5 +12".
func (p *callgrindParser) transfer(value string, call bool) error {
	f := strings.Fields(value)
	if len(f) < 1+max(p.instr+1, 1) {
		return errors.New("no number and target")
	}
	taken, executed, conditional := strings.Cut(f[0], "/")
	n, err := strconv.ParseUint(taken, 10, 64)
	if err != nil {
		return err
	}
	if conditional {
		all, err := strconv.ParseUint(executed, 10, 64)
		if err != nil || call {
			return fmt.Errorf("%s is not taken/executed", f[0])
		}
		if n > all { // as callgrind 3.19 writes them where collection is toggled
			return fmt.Errorf("taken %d times of %d: jumps are not exact under --toggle-collect", n, all)
		}
	}
	to, err := p.address(f[1:])
	if err != nil {
		return err
	}
	p.pending = &pendingTransfer{call, to, n, !call || p.callee == "" || p.callee == p.object}
	return nil
}

// address reads the address among the positions that a line begins with.
func (p *callgrindParser) address(fields []string) (image.Addr, error) {
	if p.instr < 0 {
		return 0, errors.New("no line \"positions: instr\" before: made without --dump-instr=yes")
	}
	if len(fields) <= p.instr {
		return 0, errors.New("no address")
	}
	s := fields[p.instr]
	if s == "*" {
		return p.last, nil
	}
	v, err := strconv.ParseUint(strings.TrimLeft(s, "+-"), 0, 64)
	if err != nil {
		return 0, fmt.Errorf("address %.20q: want a number of at most 64 bits, such as 0x1139", s)
	}
	switch s[0] {
	case '+':
		return p.last + image.Addr(v), nil
	case '-':
		return p.last - image.Addr(v), nil
	}
	return image.Addr(v), nil
}

// cost reads a line of positions and costs: the costs of an instruction, or the
// source of a call or jump and, for a call, what it cost.
func (p *callgrindParser) cost(f []string) error {
	addr, err := p.address(f)
	if err != nil {
		return err
	}
	p.last, p.inPart = addr, true
	it := p.truth.Images[p.object]
	if it == nil {
		if err := p.in.Hold(truthImage + int64(len(p.object))); err != nil {
			return err
		}
		it = p.truth.Image(p.object)
	}
	if t := p.pending; t != nil {
		p.pending = nil
		switch {
		case t.n == 0 || !t.local:
		case t.call:
			return count(p.in, it.Calls, Transfer{addr, t.to}, t.n)
		default:
			return count(p.in, it.Jumps, Transfer{addr, t.to}, t.n)
		}
		return nil
	}
	if p.event < 0 {
		return errors.New("costs without a line \"events: Ir\" before")
	}
	i := len(p.positions) + p.event
	if i >= len(f) {
		return nil // costs left out are zero
	}
	n, err := strconv.ParseUint(f[i], 10, 64)
	if err != nil {
		return fmt.Errorf("executions %.20q: want a whole number", f[i])
	}
	if n > 0 {
		if err := count(p.in, it.Insts, addr, n); err != nil {
			return err
		}
		p.sum += n
	}
	return p.others(it, addr, f[len(p.positions):])
}

// others reads the costs that are no executions.
func (p *callgrindParser) others(it *Image, addr image.Addr, costs []string) error {
	for i, c := range costs[:min(len(costs), len(p.events))] {
		if i == p.event || c == "0" {
			continue
		}
		name := p.events[i]
		n, err := strconv.ParseUint(c, 10, 64)
		if err != nil {
			return fmt.Errorf("%.20q: %.20q: want a whole number", name, c)
		}
		at, err := it.event(p.in, name)
		if err != nil {
			return err
		}
		if err := count(p.in, at, addr, n); err != nil {
			return err
		}
	}
	return nil
}

// event returns the counts of an event, which are empty if it had none. A new one draws memory.
func (it *Image) event(in *bound.Input, name string) (map[image.Addr]uint64, error) {
	if at := it.Events[name]; at != nil {
		return at, nil
	}
	if err := in.Hold(truthEntry); err != nil {
		return nil, err
	}
	if it.Events == nil {
		it.Events = map[string]map[image.Addr]uint64{}
	}
	it.Events[name] = map[image.Addr]uint64{}
	return it.Events[name], nil
}

// What becomes of the counts of a file in memory, in bytes.
const (
	truthEntry = 48  // an entry of a map, with the map that it outgrows
	truthImage = 384 // an image, with its empty maps
)

// count adds n to an entry of a map. A new one draws memory.
func count[K comparable](in *bound.Input, m map[K]uint64, key K, n uint64) error {
	old, ok := m[key]
	if !ok {
		if err := in.Hold(truthEntry); err != nil {
			return err
		}
	}
	if old+n < old {
		return fmt.Errorf("executions: %d and %d are more than 64 bits hold", old, n)
	}
	m[key] = old + n
	return nil
}

// A truthTransfer is an entry of "jump" or "call" in JSON: [from, to, n].
type truthTransfer struct {
	Transfer
	n uint64
}

func (t *truthTransfer) UnmarshalJSON(b []byte) error {
	var from, to document.Addr
	fields := []any{&from, &to, &t.n}
	if err := json.Unmarshal(b, &fields); err != nil || len(fields) != 3 {
		return fmt.Errorf("%.60s: want source, target and number, such as [\"0x1139\", \"0x1150\", 7]", b)
	}
	t.Transfer = Transfer{image.Addr(from), image.Addr(to)}
	return nil
}

// addTransfers adds those of JSON, whose memory was drawn.
func addTransfers(to map[Transfer]uint64, list []truthTransfer) error {
	for _, t := range list {
		if t.n == 0 {
			continue
		}
		if err := count(nil, to, t.Transfer, t.n); err != nil {
			return err
		}
	}
	return nil
}

// jsonMemory returns what the counts in b take of memory, in bytes: there is a comma between
// two entries of a map, an image in braces, and a transfer in brackets.
func jsonMemory(b []byte) int64 {
	n, quoted := int64(0), false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == ',':
			n += truthEntry
		case c == '{', c == '[':
			n += truthImage / 4
		}
	}
	return n
}

func readTruthJSON(r io.Reader, in *bound.Input) (*Counts, error) {
	b, err := bound.ReadAll(r)
	if err == nil {
		err = in.Hold(jsonMemory(b))
	}
	if errors.Is(err, bound.ErrBeyond) {
		return nil, fmt.Errorf("offset %#x: %w: %w", len(b), err, ErrFormat)
	} else if err != nil {
		return nil, err
	}
	var images map[string]struct {
		Insn map[document.Addr]uint64 `json:"insn"`
		Jump []truthTransfer          `json:"jump"`
		Call []truthTransfer          `json:"call"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&images); err != nil {
		return nil, fmt.Errorf("%w: %w", document.JSONError(err), ErrFormat)
	}
	var t Counts
	for path, im := range images {
		it := t.Image(path)
		for a, n := range im.Insn {
			if n > 0 {
				it.Insts[image.Addr(a)] = n
			}
		}
		if err := cmp.Or(addTransfers(it.Jumps, im.Jump), addTransfers(it.Calls, im.Call)); err != nil {
			return nil, fmt.Errorf("%.60q: %w: %w", path, err, ErrFormat)
		}
	}
	if len(t.Images) == 0 {
		return nil, fmt.Errorf("no image in it: %w", ErrFormat)
	}
	return &t, nil
}
