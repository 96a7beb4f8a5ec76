package emit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// littleTime is the share of all samples below which a profile is said to be about little of the time, and
// muchTime the share from which what has it instead is named.
const littleTime, muchTime = 0.1, 0.2

// elsewhere says where the time is if little of it is in the images that a profile is about, or another has more, or is a
// program with at least half as much, or the
// program of libraries that the profile is about: the
// format's choice, of a program that its compiler did not make, may be a library of the system. Who names an image, of a
// store of many programs, knows that the others have time too.
func elsewhere(src *input.Session, opt Options, again attempt, about ...sample.ImageID) []string {
	share, where := outside(src, opt, again, about)
	if share == "" {
		return nil
	}
	return []string{fmt.Sprintf("this profile is about %s of the samples, and can save no more of the time%s", share, where)}
}

// An attempt is made at a profile of the image that feedback knows by that name: its error is why there is none.
type attempt func(image string) error

// missed is the error of a profile of shared libraries alone, where a program has more samples than these, or as good as all are
// elsewhere. As people mean the program that they recorded, it says why that is not in it, and how to have what there is.
func missed(src *input.Session, opt Options, format string, again attempt, about ...sample.ImageID) error {
	if opt.Image != "" || !isLibrary(about) {
		return nil
	}
	all, in, others := shares(src, about)
	for _, path := range report.MostFirst(others) {
		n := others[path]
		if path == "" || IsSharedName(path) || !strings.HasPrefix(path, "/") {
			continue
		}
		if n <= in && float64(in) >= littleTime*float64(all) {
			return nil
		}
		of := report.Clean(about[0].Path)
		if len(about) > 1 {
			of += fmt.Sprintf(" and %d more", len(about)-1)
		}
		var do string
		if lost := missing(src, path); lost == nil {
			do = remedy(src, path, again)
		} else {
			do = fmt.Sprintf("which was not found: %v; name with --symfs where the recorded file is, or keep it next time (record --copy-to DIR)", lost)
		}
		return fail.Errorf(fail.Nothing, "%s: nothing was written, as it would be a profile of shared libraries alone, %s, with %s of the samples; %s are in %s, %s; --image %s writes that of the library",
			format, of, report.Share(in, all), report.Share(n, all), report.Clean(path), do, prose.ShellWord(report.Clean(about[0].Path)))
	}
	return nil
}

// instead is elsewhere for an image of which there is no profile.
func instead(src *input.Session, opt Options, id sample.ImageID) string {
	share, where := outside(src, opt, nil, []sample.ImageID{id})
	if share == "" {
		return ""
	}
	return fmt.Sprintf("; %s has %s of the samples%s", id.Path, share, where)
}

// shares returns the samples, those in the images, and those elsewhere, by path; "" is the kernel.
func shares(src *input.Session, about []sample.ImageID) (all, in uint64, others map[string]uint64) {
	others = map[string]uint64{}
	for _, c := range src.Recording.Counts {
		if c.Event.Name != src.Profile.Event.Name {
			continue
		}
		all += c.Total
		for _, ic := range c.Images {
			if slices.ContainsFunc(about, func(id sample.ImageID) bool { return id.Key() == ic.ID.Key() }) {
				in += ic.Samples()
			} else {
				others[ic.ID.Path] += ic.Samples()
			}
		}
		others[""] += c.Lost[sample.LostKernel]
	}
	return all, in, others
}

// outside returns the share of the samples that is in the images, and where the others are, if that is worth saying.
func outside(src *input.Session, opt Options, again attempt, about []sample.ImageID) (share, where string) {
	if opt.Image != "" {
		return "", ""
	}
	all, in, others := shares(src, about)
	little, more := float64(in) < littleTime*float64(all), false
	for _, path := range report.MostFirst(others) {
		n := others[path]
		switch {
		case float64(n) < muchTime*float64(all):
		case path == "":
			where += fmt.Sprintf("; %s are in the kernel", report.Share(n, all))
		default:
			more = more || n > in || 2*n >= in && isProgram(src, path, about) || isLibrary(about) && !IsSharedName(path)
			where += fmt.Sprintf("; %s are in %s, %s", report.Share(n, all), report.Clean(path), remedy(src, path, again))
		}
	}
	if !little && !more {
		return "", ""
	}
	return report.Share(in, all), where
}

// lostProgram is the error of a format's own choice of a Go program where another program has more samples and its file is gone:
// `go run` and `go test` build one, and delete it, and the profile would be of what they built it with.
func lostProgram(src *input.Session) error {
	chosen := feedback.GoProgram(src.Profile)
	lost, n := src.Unfound()
	if chosen == nil || n == 0 || IsSharedName(lost.Path) {
		return nil
	}
	built := strings.Contains(lost.Path, "/go-build")
	if n <= chosen.Samples && !(built && feedback.IsGoTool(chosen)) {
		return nil
	}
	do := "name with --symfs where it is"
	if built {
		do = "go run and go test delete what they build: record it by pgo, or with --copy-to DIR and then --symfs DIR here"
	}
	return fail.Errorf(fail.Nothing, "go: %s, which has %s of the samples, was not found: %w; %s, or --image %s writes a profile of that program, which has %s",
		report.Clean(lost.Path), report.Share(n, src.Profile.Samples.Total), src.Missing(lost), do, report.Clean(chosen.ID.Path), report.Share(chosen.Samples, src.Profile.Samples.Total))
}

// missing returns why the image at path was not found; nil if it was.
func missing(src *input.Session, path string) error {
	for _, c := range src.Recording.Counts {
		for _, ic := range c.Images {
			if err := src.Missing(ic.ID); ic.ID.Path == path && err != nil {
				return err
			}
		}
	}
	return nil
}

// remedy says how to have a profile of the image at path, or why there is none. What it says to do is tried before, if again is not nil.
func remedy(src *input.Session, path string, again attempt) string {
	if err := missing(src, path); err != nil {
		return fmt.Sprintf("which was not found: %v", err)
	}
	for _, ip := range src.Profile.Images {
		if ip.ID.Path != path {
			continue
		}
		if err := ip.Image.Unread(); errors.Is(err, image.ErrNoLines) {
			return "which has no line table: " + debugInfo
		}
		if again == nil {
			break
		}
		if err := Advised(again(NameOf(ip.ID))); err != nil {
			return "of which there is no profile: " + err.Error()
		}
	}
	return fmt.Sprintf("of which --image %s would have it", prose.ShellWord(report.Clean(path)))
}

// isProgram reports whether the image at path is a program that a profile might be about instead: of Go, if those are that it is about.
func isProgram(src *input.Session, path string, about []sample.ImageID) bool {
	if IsSharedName(path) {
		return false
	}
	ofGo := func(ip *infer.ImageProfile) bool { return ip.Image != nil && ip.Image.Go != "" }
	wantGo, isGo, found := false, false, false
	for _, ip := range src.Profile.Images {
		if slices.ContainsFunc(about, func(id sample.ImageID) bool { return id.Key() == ip.ID.Key() }) {
			wantGo = wantGo || ofGo(ip)
		}
		if ip.ID.Path == path {
			found, isGo = true, isGo || ofGo(ip)
		}
	}
	return found && (isGo || !wantGo)
}

// isLibrary reports whether all images are shared libraries by their names, which who records a program rarely compiles.
func isLibrary(ids []sample.ImageID) bool {
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id sample.ImageID) bool { return !IsSharedName(id.Path) })
}

// IsSharedName reports whether a path is that of a shared library: libz.so, libz.so.1.2.
func IsSharedName(path string) bool {
	base := filepath.Base(path)
	return strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.")
}

// Unread says what debug information of the images could not be read, of those whose samples are not few.
func Unread(p *infer.Profile) (all []string) {
	if p == nil { // of functions and lines alone
		return nil
	}
	var samples uint64
	for _, ip := range p.Images {
		samples += ip.Samples
	}
	for _, ip := range p.Images {
		err := ip.Image.Unread()
		if err == nil || float64(ip.Samples) < littleWeight*float64(samples) {
			continue
		}
		first, others, _ := strings.Cut(err.Error(), "\n")
		if n := strings.Count(others, "\n"); others != "" {
			first += fmt.Sprintf(" (and %d more)", n+1)
		}
		all = append(all, fmt.Sprintf("not all debug information was read: %s: %s", ip.ID.Path, strings.TrimPrefix(first, ip.ID.Path+": ")))
	}
	return all
}

// goAdvice says of each kind of code in which most time is what would help where Go's compiler does not.
var goAdvice = map[feedback.GoKind]string{
	feedback.GoOwn:      "in Go code that makes few calls, %s first: see its loops with `backfeed topstalls`",
	feedback.GoRuntime:  "in Go's runtime, %s first: see who calls it with `backfeed prof --experiment usertime`, and allocate, look up or wait less there",
	feedback.GoAssembly: "in assembly, %s first, which no profile changes",
	feedback.GoForeign:  "in code of other compilers, %s first: emit a profile for them too",
}

// worth says what the profile of a Go program is expected to save, and if that is next to nothing, why, and what else would help. built is
// whether the program was built with a profile already, whose calls are inlined: what another brings is not known, as of too few samples.
func worth(w *feedback.GoWorth, built bool) []string {
	if built {
		return nil
	}
	if !w.Little() {
		least, most, known := w.Saves()
		if !known {
			return nil
		}
		return []string{fmt.Sprintf("expected to save %s to %s of the program's instructions: %s; time is not foretold, and may grow", report.Percent(least), report.Percent(most), perCall(w))}
	}
	var all uint64
	for _, t := range w.Time {
		all += t.Samples
	}
	var where []string
	for _, t := range w.Time {
		if float64(t.Samples) >= muchTime*float64(all) {
			where = append(where, fmt.Sprintf("%s of its samples are "+goAdvice[t.Kind], report.Share(t.Samples, all), t.Hottest))
		}
	}
	return []string{fmt.Sprintf("this profile is not expected to save as much as 1 %% of the program's instructions: %s. %s", perCall(w), strings.Join(where, "; "))}
}

// perCall says what is expected of w by.
func perCall(w *feedback.GoWorth) string {
	return fmt.Sprintf("of 1000 that ran, %.1f are calls that it makes hot and the compiler may inline, and each was worth %g to %g instructions in other programs",
		1000*w.Calls/w.Executed, feedback.LeastPerCall, feedback.MostPerCall)
}
