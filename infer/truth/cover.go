package truth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Cover is how often the blocks of Go source ran that go build -cover put counters
// into.
type Cover struct {
	Blocks []CoverBlock // by file, then place
}

// A CoverBlock is statements that run together.
type CoverBlock struct {
	File       string // import path of the package, and name of the file
	Start, End SourcePlace
	N          uint64 // executions
}

// A SourcePlace is a line and a column, the latter in bytes, both from 1.
type SourcePlace struct{ Line, Column int }

// Compare orders places of a file.
func (p SourcePlace) Compare(o SourcePlace) int {
	return (p.Line-o.Line)*2 + sign(p.Column-o.Column)
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// ErrCover is wrapped by every error that blames a cover profile rather than the disk
// it was read from.
var ErrCover = errors.New("malformed cover profile")

// coverMode begins a cover profile.
const coverMode = "mode: "

// IsCover tells from its first bytes whether a file is a cover profile.
func IsCover(head []byte) bool { return bytes.HasPrefix(head, []byte(coverMode)) }

const (
	maxCoverLine   = 1 << 16 // bytes of a line: a path of at most 4096, and numbers
	maxSourceLine  = 1 << 30 // lines and columns, so that differences fit an int
	coverFieldsFmt = "FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS EXECUTIONS"
)

// ReadCover reads the text that `go tool covdata textfmt` writes (cmd/covdata,
// internal/coverage/cformat of Go 1.26):
//
//	mode: count                           or atomic; set says nothing of how often
//	demo/main.go:44.47,46.3 1 27          start, end: statements, executions
func ReadCover(r io.Reader) (*Cover, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxCoverLine)
	sum := map[CoverBlock]uint64{} // executions, by the block without them
	line := 0
	for sc.Scan() {
		line++
		text := strings.TrimSpace(sc.Text())
		mode, isMode := strings.CutPrefix(text, coverMode)
		switch {
		case line == 1 && !isMode:
			return nil, fmt.Errorf("line 1: %.40q, want %q: %w", text, coverMode+"count", ErrCover)
		case isMode && mode == "set":
			return nil, fmt.Errorf("line %d: mode set tells what ran, not how often; build with -covermode=count or atomic: %w", line, ErrCover)
		case isMode && mode != "count" && mode != "atomic":
			return nil, fmt.Errorf("line %d: mode %.40q is unknown: %w", line, mode, ErrCover)
		case isMode || text == "":
			continue
		}
		b, err := parseCoverBlock(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", line, err, ErrCover)
		}
		n := b.N
		b.N = 0
		sum[b] += n
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes: %w", line+1, maxCoverLine, ErrCover)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	if len(sum) == 0 {
		return nil, fmt.Errorf("line %d: no block: %w", line, ErrCover)
	}
	c := &Cover{}
	for b, n := range sum {
		b.N = n
		c.Blocks = append(c.Blocks, b)
	}
	slices.SortFunc(c.Blocks, compareCoverBlocks)
	return c, nil
}

func compareCoverBlocks(a, b CoverBlock) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	if c := a.Start.Compare(b.Start); c != 0 {
		return c
	}
	return a.End.Compare(b.End)
}

func parseCoverBlock(text string) (b CoverBlock, err error) {
	at := strings.LastIndexByte(text, ':')
	fields := strings.FieldsFunc(text[at+1:], func(r rune) bool { return r == ' ' || r == ',' || r == '.' })
	if at <= 0 || len(fields) != 6 {
		return b, fmt.Errorf("%.80q: want %s", text, coverFieldsFmt)
	}
	b.File = text[:at]
	for i, to := range []*int{&b.Start.Line, &b.Start.Column, &b.End.Line, &b.End.Column} {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil || n == 0 || n > maxSourceLine {
			return b, fmt.Errorf("%.80q: line or column %q", text, fields[i])
		}
		*to = int(n)
	}
	if b.End.Compare(b.Start) < 0 {
		return b, fmt.Errorf("%.80q: ends before it starts", text)
	}
	if _, err := strconv.ParseUint(fields[4], 10, 64); err != nil {
		return b, fmt.Errorf("%.80q: statements: %q", text, fields[4])
	}
	if b.N, err = strconv.ParseUint(fields[5], 10, 64); err != nil {
		return b, fmt.Errorf("%.80q: executions: %q", text, fields[5])
	}
	return b, nil
}

// lines returns the block of each line, by file, where all code on the line is that of
// one block, -1 where it is not or may not be.
//
// A block may begin in the middle of a line, behind the brace of an if or for, or the
// colon of a case, which also have code: its first line is no evidence of it.
func (c *Cover) lines() map[string]map[int]int {
	files := map[string]map[int]int{}
	for i, b := range c.Blocks {
		of := files[b.File]
		if of == nil {
			of = map[int]int{}
			files[b.File] = of
		}
		for line := b.Start.Line; line <= min(b.End.Line, b.Start.Line+maxCoverLines); line++ {
			if _, taken := of[line]; taken || line == b.Start.Line {
				of[line] = -1
			} else {
				of[line] = i
			}
		}
	}
	return files
}

// maxCoverLines bounds the lines of a block that are looked at.
const maxCoverLines = 1000
