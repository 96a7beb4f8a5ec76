package feedback

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"backfeed/sample/bound"
)

// A sampleProfile is a sample profile of LLVM's.
type sampleProfile struct {
	funcs   map[string]*function // by name
	samples float64              // that it was made of; 0 is unknown: WriteLLVM says it in text
}

// What a profile takes of memory, in bytes. An inlined call is known by the path of the
// calls around it, twice: as a call, and to what is inlined into it.
const (
	functionMemory = 512
	lineMemory     = 48
	targetMemory   = 96
	pathStep       = 24 // of a path, beside the name: " @ 65535.4294967295 "
)

// readSampleProfile reads a sample profile of LLVM's, text or binary.
func readSampleProfile(r io.Reader) (*sampleProfile, error) {
	in, r := bound.Stream(r)
	br := bufio.NewReader(r)
	first, err := br.Peek(binary.MaxVarintLen64)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if magic, _ := binary.Uvarint(first); magic>>8 != llvmMagic>>8 {
		return readLLVMText(br, in)
	}
	data, err := bound.ReadAll(br)
	if err != nil {
		return nil, err
	}
	funcs, err := readLLVMBinary(data)
	return &sampleProfile{funcs: funcs}, err
}

// samplesComment comes before the number of samples that a profile was made of.
const samplesComment = "# samples: "

// maxSampleLine bounds a line of a profile, in bytes: C++ names take thousands.
const maxSampleLine = 1 << 20

// readLLVMText reads the text form, which WriteLLVM explains. Lines of an inlined
// call are indented deeper than it. Lines of # are comments, those of ! say
// something of the function around them. Names may hold colons. What is there
// twice adds up.
func readLLVMText(r io.Reader, in *bound.Input) (*sampleProfile, error) {
	p := textReader{sampleProfile: sampleProfile{funcs: map[string]*function{}}, in: in}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxSampleLine)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimRight(sc.Text(), " \r")
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' || text[0] == '!' {
			p.comment(text)
			continue
		}
		read := p.head
		if depth := len(line) - len(text); depth > 0 {
			p.leave(depth)
			read = func(text string) error { return p.line(text, depth) }
		}
		if err := read(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return &p.sampleProfile, sc.Err()
}

// A textReader adds lines to functions.
type textReader struct {
	sampleProfile
	in     *bound.Input
	around []indented // what the line is in, outermost first
}

// comment reads the one that WriteLLVM writes. Profiles that were joined have several.
func (p *textReader) comment(text string) {
	if said, ok := strings.CutPrefix(text, samplesComment); ok {
		n, _ := strconv.ParseUint(said, 10, 64) // another's comment is none of ours
		p.samples += float64(n)
	}
}

// An indented is a function, or the body of an inlined call, and the depth of its first line.
type indented struct {
	*function
	depth int
	path  int // bytes of the names of the calls that it is inlined through
}

// leave leaves the inlined calls that a line of that depth is not in.
func (p *textReader) leave(depth int) {
	for len(p.around) > 1 && p.around[len(p.around)-1].depth >= depth {
		p.around = p.around[:len(p.around)-1]
	}
}

// head reads the first line of a function.
func (p *textReader) head(text string) error {
	rest, head, ok := cutCount(text)
	name, total, ok2 := cutCount(rest)
	if !ok || !ok2 || name == "" {
		return fmt.Errorf("want NAME:TOTAL:HEAD: %w", ErrUnfit)
	}
	if err := p.hold(functionMemory+len(text), "function"); err != nil {
		return err
	}
	f := childOf(p.funcs, name)
	f.total, f.head = addCounts(f.total, total), addCounts(f.head, head)
	p.around = append(p.around[:0], indented{f, 0, len(name)})
	return nil
}

// line reads a line of a body.
func (p *textReader) line(text string, depth int) error {
	where, rest, ok := strings.Cut(text, ": ")
	at, isSpot := parseSpot(where)
	if !ok || !isSpot || len(p.around) == 0 {
		return fmt.Errorf("want OFFSET[.DISCRIMINATOR]: COUNT in a function: %w", ErrUnfit)
	}
	around := p.around[len(p.around)-1]
	f := around.function
	if err := p.hold(lineMemory+len(text), "line"); err != nil {
		return err
	}
	count, targets, _ := strings.Cut(rest, " ")
	if n, err := strconv.ParseUint(count, 10, 64); err == nil {
		f.body[at] = addCounts(f.body[at], n)
		for targets = strings.TrimLeft(targets, " "); targets != ""; {
			callee, n, rest, ok := cutTarget(targets)
			if !ok || callee == "" {
				return fmt.Errorf("%q: want CALLEE:COUNT: %w", targets, ErrUnfit)
			}
			if err := p.hold(targetMemory, "target"); err != nil {
				return err
			}
			f.addCall(at, callee, n)
			targets = rest
		}
		return nil
	}
	callee, total, ok := cutCount(rest)
	if !ok || callee == "" {
		return fmt.Errorf("want a count or CALLEE:TOTAL: %w", ErrUnfit)
	}
	path := around.path + len(callee) + pathStep
	if err := p.hold(functionMemory+2*path, "path of an inlined call"); err != nil {
		return err
	}
	in := childOf(f.inlined, inlinedCall{at, callee})
	in.total = addCounts(in.total, total)
	p.around = append(p.around, indented{in, depth, path})
	return nil
}

// hold draws what something takes of memory.
func (p *textReader) hold(n int, field string) error {
	if err := p.in.Hold(int64(n)); err != nil {
		return fmt.Errorf("%s: %w: %w", field, err, ErrUnfit)
	}
	return nil
}

// parseSpot reads what spot.String writes.
func parseSpot(s string) (spot, bool) {
	line, disc, ok := strings.Cut(s, ".")
	offset, err := strconv.ParseUint(line, 10, 16)
	if err != nil || !ok {
		return spot{offset: uint16(offset)}, err == nil
	}
	d, err := strconv.ParseUint(disc, 10, 32)
	return spot{offset: uint16(offset), disc: uint32(d)}, err == nil
}

// cutTarget splits the first CALLEE:COUNT off the targets of a call. Names that are not mangled
// have spaces and colons: the first colon before a whole word of digits ends one, as for LLVM.
func cutTarget(s string) (callee string, n uint64, rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] != ':' {
			continue
		}
		end := i + 1
		for end < len(s) && '0' <= s[end] && s[end] <= '9' {
			end++
		}
		if end == i+1 || end < len(s) && s[end] != ' ' {
			continue
		}
		n, err := strconv.ParseUint(s[i+1:end], 10, 64)
		return s[:i], n, strings.TrimLeft(s[end:], " "), err == nil
	}
	return "", 0, "", false
}

// cutCount splits "name:count" at the last colon.
func cutCount(s string) (string, uint64, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 64)
	return s[:i], n, err == nil
}
