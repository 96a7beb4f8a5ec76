package input

import (
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/infer"
	"backfeed/infer/image"
)

// TestProcNamed: names that are known, by whatever they have in common.
func TestProcNamed(t *testing.T) {
	var ip infer.ImageProfile
	ip.ID.Path = "/opt/prog"
	for i, name := range []string{"main", "mainly", "_ZN3geo4areaEi", "_ZN3geo4areaEd", "_ZN3geo5widthEi", "pkg.(*T).get", "idle", "a.org/geo/line.(*T).Len", "a.org/geo/line.(*T).Len-fm", "a.org/geo/online.(*T).Len"} {
		ip.Procs = append(ip.Procs, &infer.Result{Samples: uint64(max(0, 6-i)), Proc: &image.Proc{Symbol: image.Symbol{Name: name, Addr: image.Addr(16 * i)}}})
	}
	s := &Session{Profile: &infer.Profile{Images: []*infer.ImageProfile{&ip}}}
	for _, tt := range []struct {
		want, name string
		kind       fail.Kind
	}{
		{"main", "main", fail.Other},
		{"^mainl", "mainly", fail.Other},
		{"prog:main", "main", fail.Other},
		{"_ZN3geo4areaEi", "_ZN3geo4areaEi", fail.Other},
		{"geo::area(double)", "_ZN3geo4areaEd", fail.Other},
		{"geo::width", "_ZN3geo5widthEi", fail.Other},
		{"width", "_ZN3geo5widthEi", fail.Other},
		{"(*T).get", "pkg.(*T).get", fail.Other},
		{"idle", "idle", fail.Other},
		{"line.(*T).Len", "a.org/geo/line.(*T).Len", fail.Other},
		{"geo/line.(*T).Len", "a.org/geo/line.(*T).Len", fail.Other},
		{"geo::area", "", fail.Usage},
		{"area", "", fail.Usage},
		{"(((", "", fail.Nothing},
		{"main:", "", fail.Nothing},
		{"other:main", "", fail.Nothing},
	} {
		_, r, err := s.Proc(tt.want)
		if err != nil {
			if kind := fail.KindOf(err); kind != tt.kind {
				t.Errorf("%s: a failure of kind %d, want %d: %v", tt.want, kind, tt.kind, err)
			}
			continue
		}
		if r.Proc.Name != tt.name {
			t.Errorf("%s: %s, want %q", tt.want, r.Proc.Name, tt.name)
		}
	}
}
