package emit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
)

// A Places says how files of source are named to editors.
type Places struct {
	trees []*source.Tree
}

// NewPlaces names files by their paths below dirs, and leaves out what is not there; without directories, by the paths that debug
// information has.
func NewPlaces(dirs []string) (*Places, error) {
	p := &Places{}
	for _, dir := range dirs {
		t, err := source.OpenTree(dir)
		if err != nil {
			return nil, err
		}
		p.trees = append(p.trees, t)
	}
	return p, nil
}

// of returns the name of a file; false if it is left out. Of several directories that is taken where more of its path is.
func (p *Places) of(file string) (string, bool) {
	if len(p.trees) == 0 {
		return file, file != "" && !strings.HasPrefix(file, "<") // compilers make some up
	}
	best := ""
	for _, t := range p.trees {
		if rel, ok := t.Find(file); ok && min(len(rel), len(file)) > min(len(best), len(file)) {
			best = rel
		}
	}
	return best, best != ""
}

// A lineAt is a line of a file.
type lineAt struct {
	file string
	line int
}

// lcov is the counts of lines and functions.
type lcov struct {
	places *Places
	named  map[string]string // files by their recorded names; "" is left out
	lines  map[lineAt]float64
	funcs  map[lineAt]map[string]float64 // by where they begin, and by name
	left   float64                       // executed instructions without a line, or whose file is left out
	all    float64
}

// Lcov writes how often lines and functions ran, as lcov's tracefiles have it. A line's count is that of the block of it that ran
// most, summed over all places that it was inlined into. Lines of which nothing is known are left out, and procedures of
// which nothing was seen; 0 has evidence.
func Lcov(w io.Writer, src *input.Session, places *Places) (summary []string, err error) {
	l := &lcov{places: places, named: map[string]string{}, lines: map[lineAt]float64{}, funcs: map[lineAt]map[string]float64{}}
	for _, ip := range src.Profile.Images {
		lines, err := ip.Image.Lines()
		for _, r := range ip.Procs {
			if !r.Seen { // its count is what its callers' let it be, and coverage has no word for that
				continue
			}
			l.all += r.Instructions()
			if err != nil {
				l.left += r.Instructions()
				continue
			}
			l.add(ip, r, lines)
		}
	}
	if len(l.lines) == 0 {
		return nil, fail.Errorf(fail.Nothing, "export --format lcov: no line of source is known of what ran: compile with -g, or have the debug files where --symfs looks; --source has to be where the files are")
	}
	out := bufio.NewWriter(w)
	files := l.write(out)
	return []string{fmt.Sprintf("%d lines of %d files; %s of the executed instructions have no line, or none of these files", len(l.lines), files, report.Percent(l.left/max(l.all, 1)))}, out.Flush()
}

// name is the name of a recorded file to editors, "" if it is left out.
func (l *lcov) name(file string) string {
	name, ok := l.named[file]
	if !ok {
		if name, ok = l.places.of(file); !ok || strings.ContainsAny(name, "\n\r") {
			name = ""
		}
		l.named[file] = name
	}
	return name
}

// add adds the lines of a procedure.
func (l *lcov) add(ip *infer.ImageProfile, r *infer.Result, lines *image.Lines) {
	type copied struct {
		lineAt
		inlined string // by what calls
	}
	most := map[copied]float64{}
	for b := range r.Proc.Blocks {
		f := r.Block[b]
		if r.BlockSamples[b] > 0 {
			f.N = max(1, f.N)
		}
		known := r.Cold[b] || f.Conf != infer.None && f.N > 0 // where 0 is no more than less than one, it may as well have run
		for _, in := range ip.Image.Insts(&r.Proc.Blocks[b]) {
			frames := lines.Frames(in.Addr)
			name := ""
			if len(frames) > 0 && frames[0].Line > 0 {
				name = l.name(frames[0].File)
			}
			if name == "" {
				l.left += f.N
				continue
			}
			if !known {
				continue
			}
			at := copied{lineAt: lineAt{name, frames[0].Line}}
			for _, fr := range frames[1:] {
				at.inlined += fmt.Sprintf("%s:%d;", fr.Func, fr.Line)
			}
			most[at] = max(most[at], f.N)
		}
	}
	for at, n := range most {
		l.lines[at.lineAt] += n
	}
	if frames := lines.Frames(r.Proc.Addr); len(frames) > 0 && r.Entries.Conf != infer.None {
		own := frames[len(frames)-1]
		if name := l.name(own.File); name != "" && own.StartLine > 0 {
			at := lineAt{name, own.StartLine}
			if l.funcs[at] == nil {
				l.funcs[at] = map[string]float64{}
			}
			l.funcs[at][lcovName(r.Proc.Name)] += max(r.Entries.N, float64(min(1, r.Samples)))
		}
	}
}

// lcovName is the linker's name of a function without what ends a field of a tracefile.
func lcovName(name string) string { return strings.ReplaceAll(report.Clean(name), ",", ";") }

// write writes the records, and returns of how many files they are.
func (l *lcov) write(w io.Writer) int {
	byFile := map[string][]int{}
	for at := range l.lines {
		byFile[at.file] = append(byFile[at.file], at.line)
	}
	for at := range l.funcs {
		if byFile[at.file] == nil {
			byFile[at.file] = []int{}
		}
	}
	starts := slices.SortedFunc(maps.Keys(l.funcs), func(a, b lineAt) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		fmt.Fprintf(w, "TN:\nSF:%s\n", report.Clean(file))
		var counts strings.Builder
		found, hit := 0, 0
		for _, at := range starts {
			if at.file != file {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(l.funcs[at])) {
				n := l.funcs[at][name]
				fmt.Fprintf(w, "FN:%d,%s\n", at.line, name)
				fmt.Fprintf(&counts, "FNDA:%s,%s\n", whole(n), name)
				if found++; n > 0 {
					hit++
				}
			}
		}
		fmt.Fprintf(w, "%sFNF:%d\nFNH:%d\n", counts.String(), found, hit)
		lines := byFile[file]
		slices.Sort(lines)
		hit = 0
		for _, line := range lines {
			n := l.lines[lineAt{file, line}]
			fmt.Fprintf(w, "DA:%d,%s\n", line, whole(n))
			if n > 0 {
				hit++
			}
		}
		fmt.Fprintf(w, "LF:%d\nLH:%d\nend_of_record\n", len(lines), hit)
	}
	return len(byFile)
}

// whole prints a count, which is at least 1 of what ran.
func whole(n float64) string {
	if n > 0 {
		n = max(1, math.Round(n))
	}
	return fmt.Sprintf("%.0f", n)
}

// Bounds of a SARIF file: GitHub takes 10 MB, and shows 5000 results of a run.
const (
	maxFindings      = 5000
	maxFindingsBytes = 10_000_000
	leastFinding     = 0.0005 // of all time: a stall with less is no finding
)

// A finding is a result of SARIF 2.1.0; the fields are those that readers of it use.
type finding struct {
	Rule       string          `json:"ruleId"`
	RuleIndex  int             `json:"ruleIndex"`
	Level      string          `json:"level"`
	Rank       float64         `json:"rank"` // 0 to 100
	Message    sarifText       `json:"message"`
	Locations  []sarifLocation `json:"locations"`
	Properties map[string]any  `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI  string `json:"uri"`
			Base string `json:"uriBaseId,omitempty"`
		} `json:"artifactLocation"`
		Region struct {
			Line int `json:"startLine"`
		} `json:"region"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

type sarifRule struct {
	ID     string            `json:"id"`
	Short  sarifText         `json:"shortDescription"`
	Config map[string]string `json:"defaultConfiguration"`
}

// SARIF writes the stalls that take most of the time, by line of source and likeliest cause, as notes for editors and forges.
func SARIF(w io.Writer, src *input.Session, places *Places, version string) (summary []string, err error) {
	x, err := src.Explain()
	if err != nil {
		return nil, err
	}
	findings, rules, left := findings(report.NewTopStalls(src.Profile, x, report.StallFilter{}, 0), places)
	if len(findings) == 0 {
		return nil, fail.Errorf(fail.Nothing, "export --format sarif: no stall takes %g %% of the time at a line of source that is known: compile with -g, or have the debug files where --symfs looks; --source has to be where the files are", 100*leastFinding)
	}
	n, err := writeSARIF(w, findings, rules, version)
	says := fmt.Sprintf("%d stalls; stalls with %s of the time are at code without a line, or in none of these files, and those of less than %g %% of the time are left out", n, report.Percent(left), 100*leastFinding)
	if n < len(findings) {
		says += fmt.Sprintf("; %d smaller ones too, as readers take %d results and %d MB", len(findings)-n, maxFindings, maxFindingsBytes/1_000_000)
	}
	return []string{says}, err
}

// writeSARIF writes as many of the findings as readers take, and returns how many these are.
func writeSARIF(w io.Writer, all []finding, rules []sarifRule, version string) (n int, err error) {
	for size := 0; n < min(len(all), maxFindings); n++ {
		b, err := json.Marshal(all[n])
		if err != nil {
			return 0, err
		}
		if size += len(b) + 1; size > maxFindingsBytes {
			break
		}
	}
	driver := map[string]any{"name": "backfeed", "rules": rules}
	if version != "" {
		driver["version"] = version
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return n, enc.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{map[string]any{"tool": map[string]any{"driver": driver}, "results": all[:n]}},
	})
}

// findings puts stalls of one line and cause together. It returns what share of the time is left out for want of a line.
func findings(doc *report.TopStalls, places *Places) (all []finding, rules []sarifRule, left float64) {
	type key struct {
		lineAt
		rule, proc string
	}
	at, share, ruleAt := map[key]int{}, []float64{}, map[string]int{}
	for i := range doc.Stalls { // the longest first, so that the first of a line is told
		r := &doc.Stalls[i]
		file, ok := places.of(r.File)
		if !ok || r.Line == 0 {
			left += r.Share
			continue
		}
		cause, others := r.Likeliest()
		k := key{lineAt{file, r.Line}, r.Rule(), r.Linker()}
		if n, ok := at[k]; ok {
			share[n] += r.Share
			continue
		}
		at[k], share = len(all), append(share, r.Share)
		f := finding{Rule: k.rule, Level: "note"}
		var loc sarifLocation
		loc.Physical.Artifact.URI = fileURI(file)
		if len(places.trees) > 0 {
			loc.Physical.Artifact.Base = "%SRCROOT%"
		}
		loc.Physical.Region.Line = r.Line
		loc.Logical = []sarifLogical{{report.Clean(r.Procedure), "function"}}
		f.Locations = []sarifLocation{loc}
		f.Message.Text = fmt.Sprintf("likeliest cause %s%s. %s waits %s cycles beyond the least, %s times (%s confidence).",
			cause, prefixed(" (", others, ")"), report.Clean(r.Instruction), report.Ratio(r.Stall), report.Count(r.Executions), r.Confidence)
		f.Properties = map[string]any{"executions": r.Executions, "confidence": r.Confidence.String(), "cyclesEach": r.Stall, "address": r.Addr, "image": report.Clean(r.Image), "causes": causesOf(r)}
		all = append(all, f)
	}
	for i := range all {
		all[i].Rank = math.Round(1e5*share[i]) / 1e3
		all[i].Properties["share"] = share[i]
		all[i].Message.Text = fmt.Sprintf("Stalls take %s of the time here, %s", report.Percent(share[i]), all[i].Message.Text)
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b.Rank, a.Rank) })
	n := slices.IndexFunc(all, func(f finding) bool { return f.Properties["share"].(float64) < leastFinding })
	if n >= 0 {
		all = all[:n]
	}
	for i := range all {
		f := &all[i]
		if _, ok := ruleAt[f.Rule]; !ok {
			ruleAt[f.Rule] = len(rules)
			rules = append(rules, sarifRule{f.Rule, sarifText{report.CauseNote(f.Rule)}, map[string]string{"level": "note"}})
		}
		f.RuleIndex = ruleAt[f.Rule]
	}
	return all, rules, left
}

// causesOf are the causes that a stall may be of, the likeliest first.
func causesOf(r *report.StallRow) []string {
	names := []string{}
	for _, c := range r.Culprits {
		names = append(names, c.Cause)
	}
	return names
}

func prefixed(before, s, after string) string {
	if s == "" {
		return ""
	}
	return before + s + after
}

// fileURI is a file as SARIF names it: a URI if the path is absolute, else a part of one.
func fileURI(file string) string {
	u := url.URL{Path: filepath.ToSlash(file)}
	if strings.HasPrefix(u.Path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
