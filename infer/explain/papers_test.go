package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"backfeed/infer"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// The report lies beside the help that speaks of it.
const paperDir = "../../cmd/backfeed/help/accuracy"

// A program is a set with what else its directory may have.
type program struct {
	*sets.Set
	simulated *truth.Counts // simulated.gz: of callgrind --cache-sim=yes --branch-sim=yes
}

func newProgram(t *testing.T, s *sets.Set) *program {
	t.Helper()
	p := &program{Set: s}
	if path := filepath.Join(s.Dir, "simulated.gz"); exists(path) {
		p.simulated = sets.Truth(t, path)
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A papers report is written section by section, of what was found about one program after the other.
type papers struct {
	t        *testing.T
	write    bool // the report, with what is measured of time
	programs []*program
	md       strings.Builder
	pictures map[string]string // by file

	copy            string // DCPI's figures 2 and 7
	counts          counts
	inferred, exact []*stalled // by inferred and by exact counts
	calibrated      []*stalled
	ideals          []*idealTimes
}

func (r *papers) printf(format string, args ...any) { fmt.Fprintf(&r.md, format, args...) }

// draw adds a picture to the report.
func (r *papers) draw(file, alt string, p *picture) {
	r.t.Helper()
	svg := p.String()
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		r.t.Errorf("%s: a coordinate is no number", file)
	}
	testtool.WellFormed(r.t, svg)
	r.pictures[file] = svg
	r.printf("![%s](%s)\n\n", alt, file)
}

// TestPapers makes the tables and figures of the papers anew, of testdata/mix and the programs of -sets, as a report
// with pictures. With -sets and -update it is written beside the help. Without -update nothing is compared that
// depends on the machine: shares add up, figures are drawn, and what the repository has no data for is named.
func TestPapers(t *testing.T) {
	r := &papers{t: t, pictures: map[string]string{}, counts: newCounts()}
	for _, s := range append([]*sets.Set{sets.Load(t, "../../testdata/mix")}, sets.Named(t)...) {
		r.programs = append(r.programs, newProgram(t, s))
	}
	r.write = *testtool.Update && len(r.programs) > 1
	for _, p := range r.programs {
		r.study(p)
	}
	r.head()
	r.copyLoop()
	r.histograms()
	r.scatter()
	r.ideal()
	t.Log("\n" + wrapped(r.md.String()))
	if !r.write {
		return
	}
	if err := os.MkdirAll(paperDir, 0o777); err != nil {
		t.Fatal(err)
	}
	for file, svg := range r.pictures {
		testtool.Put(t, filepath.Join(paperDir, file), svg)
	}
	testtool.Put(t, filepath.Join(paperDir, "report.md"), wrapped(r.md.String()))
}

// study infers what a program has recorded, and keeps what the sections say of it.
func (r *papers) study(p *program) {
	prof := p.infer(r.t, p.Rec, infer.Options{Places: oraclePlaces})
	if prof == nil {
		return
	}
	var cal *infer.Profile
	if p.Calibrated != nil {
		cal = p.infer(r.t, p.Calibrated, infer.Options{})
	}
	if strings.Contains(p.Name, "copy") && r.copy == "" {
		r.readCopyLoop(p, prof, cal)
	}
	r.measure(p, prof, cal)
	if p.simulated != nil {
		for _, by := range []struct {
			prof *infer.Profile
			rec  *sample.Recording
			to   *[]*stalled
		}{{prof, p.Rec, &r.inferred}, {exactly(p.Set, prof), p.Rec, &r.exact}, {cal, p.Calibrated, &r.calibrated}} {
			if by.prof == nil {
				continue
			}
			s, err := p.stalls(by.prof, by.rec)
			if err != nil {
				r.t.Errorf("%s: %v", p.Name, err)
				continue
			}
			*by.to = append(*by.to, s)
		}
	}
	if all, err := p.ideals(prof); err != nil {
		r.t.Errorf("%s: %v", p.Name, err)
	} else if all.sum.inferred > 0 && all.sum.exact > 0 {
		r.ideals = append(r.ideals, all)
	}
}

// wrapped breaks the lines of paragraphs after 110 characters, and leaves those of tables, titles and pictures.
func wrapped(md string) string {
	var out strings.Builder
	for _, part := range strings.Split(strings.TrimSpace(md), "\n\n") {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		if strings.ContainsAny(part[:1], "|#!") {
			out.WriteString(part + "\n")
			continue
		}
		n := 0
		for _, word := range strings.Fields(part) {
			switch {
			case n > 0 && n+1+len(word) > 110:
				out.WriteString("\n")
				n = 0
			case n > 0:
				out.WriteString(" ")
				n++
			}
			out.WriteString(word)
			n += len(word)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (r *papers) head() {
	r.printf("# The papers' tables and figures, side by side with ours\n\n")
	if r.write {
		r.printf("Made by `go test ./infer/explain -run TestPapers -update -sets=DIR,...` on %s, of commit %s, on %s with %d processors (%s). ",
			time.Now().UTC().Format("2 January 2006, 15:04 UTC"), strings.TrimSpace(testtool.Run(r.t, "", "git", "rev-parse", "--short", "HEAD")),
			processor(), runtime.NumCPU(), runtime.GOARCH)
	}
	r.printf("Programs were recorded on the processors that the tables name, with samples of a timer, and one run of each was counted by callgrind. `testdata/programs/make.sh` makes them. The papers are those on the Digital Continuous Profiling Infrastructure (Anderson et al., SOSP 1997; below: DCPI), which ran on in-order Alpha processors, and the guide of SGI's SpeedShop.\n\n")
	r.printf("What is worse than in the papers stays in the tables. There are two main reasons. On an in-order processor the time of an instruction without stalls is known, so that samples tell executions; on one that executes out of order an execution takes a fraction of a cycle or hundreds. And samples of a timer are caught some instructions late.\n\n")
}

// processor is the name of this machine's.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS
}

func (p *program) infer(t *testing.T, rec *sample.Recording, opt infer.Options) *infer.Profile {
	t.Helper()
	prof, err := infer.Infer(t.Context(), rec, p.Open, opt)
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
		return nil
	}
	return prof
}
