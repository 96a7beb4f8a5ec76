package input

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/infer"
	"backfeed/infer/image"
)

// A proc is a procedure with its image.
type proc struct {
	ip *infer.ImageProfile
	r  *infer.Result
}

// Proc finds the procedure that the user means, and its image: that of the name, else the
// only one that matches. Those without samples are in question only if no other is.
func (s *Session) Proc(want string) (*infer.ImageProfile, *infer.Result, error) {
	images, name := s.Profile.Images, want
	if file, rest, ok := cutImage(want); ok {
		if ip, err := s.Image(file); err == nil {
			images, name = []*infer.ImageProfile{ip}, rest
		}
	}
	like := func(s string) bool { return strings.Contains(s, name) } // a name that is no expression
	if pattern, err := regexp.Compile(name); err == nil {
		like = pattern.MatchString
	}
	means := []func(image.Symbol) bool{
		func(sym image.Symbol) bool { return sym.Name == name || slices.Contains(sym.Aliases, name) },
		func(sym image.Symbol) bool { return image.Demangle(sym.Name) == name },
		func(sym image.Symbol) bool { return image.DemangleInstance(sym.Name) == name },
		func(sym image.Symbol) bool { return image.DemangleShort(sym.Name) == name },
		func(sym image.Symbol) bool { return strings.HasSuffix(image.DemangleShort(sym.Name), "::"+name) },
		func(sym image.Symbol) bool { return strings.HasSuffix(sym.Name, "/"+name) }, // of Go, from the package's own name on
		func(sym image.Symbol) bool { return strings.HasSuffix(sym.Name, "."+name) }, // of a Go package
		func(sym image.Symbol) bool {
			return like(sym.Name) || like(image.Demangle(sym.Name))
		},
	}
	for _, mean := range means {
		found := procsOf(images, mean)
		if with := slices.IndexFunc(found, func(p proc) bool { return p.r.Samples == 0 }); with > 0 {
			found = found[:with]
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0].ip, found[0].r, nil
		default:
			return nil, nil, ambiguous(want, found)
		}
	}
	return nil, nil, fail.Errorf(fail.Nothing, "%s: no samples of such a procedure (`backfeed prof` lists those that have some)", want)
}

// cutImage takes IMAGE:PROC apart. Two colons are a scope of C++ or Rust.
func cutImage(s string) (file, name string, ok bool) {
	for i := 1; i+1 < len(s); i++ {
		if s[i] == ':' && s[i-1] != ':' && s[i+1] != ':' {
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// procsOf lists the procedures that are meant, those with the most samples first.
func procsOf(images []*infer.ImageProfile, mean func(image.Symbol) bool) (found []proc) {
	for _, ip := range images {
		for _, r := range ip.Procs {
			if mean(r.Proc.Symbol) {
				found = append(found, proc{ip, r})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b proc) int { return cmp.Compare(b.r.Samples, a.r.Samples) })
	return found
}

// ambiguous lists what a name may mean.
func ambiguous(want string, found []proc) error {
	var more []string
	for i, p := range found {
		if i == 2*mostTold {
			more = append(more, fmt.Sprintf("  and %d more", len(found)-i))
			break
		}
		also := ""
		if plain := image.Demangle(p.r.Proc.Name); plain != p.r.Proc.Name {
			also = plain + ", "
		}
		more = append(more, fmt.Sprintf("  %s:%s, %s%d samples, at %#x", p.ip.ID.Path, p.r.Proc.Name, also, p.r.Samples, uint64(p.r.Proc.Addr)))
	}
	return fail.Wrap(fail.Usage, fail.Lines(fmt.Errorf("%s may be any of %d procedures:", want, len(found)), more...))
}
