package refresh

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/feedback/gate"
)

func TestParse(t *testing.T) {
	lim := gate.Usual
	lim.MinSamples = 7
	for _, tt := range []struct {
		name, text string
		want       *Target
	}{
		{"least", "refresh: {targets: {a: {sources: s, image: i, outputs: {go: p}}}}",
			&Target{Name: "a", Sources: []input.Source{{Path: "s", Weight: 1}}, Image: "i", Mode: Commit, Limits: gate.Usual, Outputs: []Output{{Kind: "go", Path: "p"}}}},
		{"all", `
check: {min-samples: 9, min-lines: 60%}
defaults: &d {builds: b, since: 7d, half-life: 36h}
refresh:
  targets:
    a:
      <<: *d
      sources: [s, t@0.5, "https://u:p@host/x?seconds=3"]
      builds: [c, https://d]
      image: i
      recorded: /srv/i
      source: .
      normalise: true
      failure-mode: all
      label: {role: web}
      event: cycles
      model: generic-x86-64
      limits: {min-samples: 7}
      mode: pin
      store: shelf
      outputs:
        - {llvm: "x/{hash}.prof", format: extbinary}
        - {gcc: p.afdo, gcc-version: 13}
        - {propeller: c, ld: o, image: j}
        - {layout: l, for: gold}
`, &Target{
			Name: "a", Sources: []input.Source{{Path: "s", Weight: 1}, {Path: "t", Weight: 0.5}, {Path: "https://u:p@host/x?seconds=3", Weight: 1}}, Builds: []string{"c", "https://d"}, Image: "i", Recorded: "/srv/i",
			Tree: ".", Since: 7 * 24 * time.Hour, HalfLife: 36 * time.Hour, Normalise: true, LeaveOut: true, Labels: map[string]string{"role": "web"},
			Event: "cycles", Model: "generic-x86-64", Limits: lim, Mode: Pin, Store: "shelf",
			Outputs: []Output{
				{Kind: "llvm", Path: "x/{hash}.prof", Form: "extbinary"}, {Kind: "gcc", Path: "p.afdo", GCC: 13},
				{Kind: "propeller", Path: "c", LD: "o", Image: "j"}, {Kind: "layout", Path: "l", For: "gold"},
			},
		}},
	} {
		c, err := Parse([]byte(tt.text), "", noLimits)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := *c.Targets[0]
		if got.line = 0; !reflect.DeepEqual(&got, tt.want) {
			t.Errorf("%s:\n%+v, want\n%+v", tt.name, &got, tt.want)
		}
	}
}

// TestParseRefuses: an error names the line, and what is wanted there.
func TestParseRefuses(t *testing.T) {
	target := func(text string) string {
		return "refresh:\n  targets:\n    a:\n      sources: s\n      image: i\n" + text
	}
	for _, tt := range []struct{ text, want string }{
		{"", `no section "refresh"`},
		{"check: {}", `no section "refresh"`},
		{"a: [", "line 1"},
		{"refresh: {}", "no targets"},
		{"refresh: {targets: [a]}", "want names"},
		{"refresh: {targets: {a: {image: i, outputs: {go: p}}}}", "no sources"},
		{"refresh: {targets: {a: {sources: s, outputs: {go: p}}}}", "no image"},
		{"refresh: {lock: ../x, targets: {a: {sources: s, image: i, outputs: {go: p}}}}", "lock"},
		{target(""), "no outputs"},
		{target("      output: x"), `line 6: "output"`},
		{target("      outputs: [x]"), "want names"},
		{target("      outputs: {go: p, llvm: q}"), "make it two"},
		{target("      outputs: {go: ''}"), "want one of go"},
		{target("      outputs: {go: ../p}"), "below"},
		{target("      outputs: {go: /p}"), "below"},
		{target("      outputs: {go: p, for: lld}"), "for goes with layout"},
		{target("      outputs: {layout: p}"), "lld, gold"},
		{target("      outputs: {layout: p, for: mold}"), "lld, gold"},
		{target("      outputs: {propeller: p}"), "wants ld"},
		{target("      outputs: {gcc: p, gcc-version: 9}"), "12 or later"},
		{target("      outputs: {notes: ., gcda: p}"), "line 6: gcda: gcc's counters are no output"},
		{target("      outputs: {llvm: '{hash}/p'}"), "last element"},
		{target("      outputs: [{go: p}, {llvm: ./p}]"), "an output of a, too"},
		{target("      outputs: {go: backfeed.lock}"), "the lock"},
		{target("      mode: pin\n      outputs: {go: p}"), "wants a store"},
		{target("      mode: git\n      outputs: {go: p}"), "commit, pin"},
		{target("      since: week\n      outputs: {go: p}"), "want a time"},
		{target("      since: 1d\n      since: 2d\n      outputs: {go: p}"), "twice"},
		{target("      limits: {min-sample: 3}\n      outputs: {go: p}"), "min-sample"},
		{"x: &x {<<: *x}\nrefresh: *x", "deep"},
		{"refresh: {targets: {a: {sources: [s@0], image: i, outputs: {go: p}}}}", "weight"},
	} {
		if c, err := Parse([]byte(tt.text), "", noLimits); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, %+v; want %q", tt.text, err, c, tt.want)
		}
	}
}

// FuzzParse: any text gives an error, or targets that are whole.
func FuzzParse(f *testing.F) {
	f.Add(all)
	f.Add("x: &x {<<: *x}\nrefresh: *x")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text), "d", noLimits)
		if err != nil {
			return
		}
		for _, target := range c.Targets {
			if len(target.Sources) == 0 || len(target.Outputs) == 0 || (target.Mode == Pin) != (target.Store != "") {
				t.Errorf("%+v", target)
			}
			for _, o := range target.Outputs {
				if o.Kind == "" || o.Path == "" {
					t.Errorf("%+v", o)
				}
			}
		}
	})
}

func TestParseLock(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	good := Locked{Path: "a/b.prof", Format: "go", SHA256: sum, Name: "b-abababababab.prof"}
	for _, tt := range []struct {
		change func(k *Locked)
		want   string
	}{
		{func(*Locked) {}, ""},
		{func(k *Locked) { k.Path = "../b.prof" }, "leads out"},
		{func(k *Locked) { k.Path = "/b.prof" }, "leads out"},
		{func(k *Locked) { k.SHA256 = "abab" }, "sha256"},
		{func(k *Locked) { k.Name = "../b.prof" }, "name"},
		{func(k *Locked) { k.Bytes = -1 }, "bytes"},
		{func(k *Locked) { k.Hot = map[string]float64{"f": 2} }, "hot"},
		{func(k *Locked) { k.Path, k.Name = "b.{hash}.prof", "b.abababababab.prof" }, ""},
	} {
		k := good
		tt.change(&k)
		l := &Lock{Schema: LockSchema, Outputs: []Locked{k}}
		if got, err := ParseLock(l.Encode()); tt.want == "" && (err != nil || !reflect.DeepEqual(got, l)) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v; want %q", k, err, tt.want)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"schema":"backfeed.lock/9"}`, `{"schema":"backfeed.lock/1","outputs":[{}]}`} {
		if _, err := ParseLock([]byte(text)); err == nil {
			t.Errorf("%q is taken for a lock", text)
		}
	}
	twice := &Lock{Schema: LockSchema, Outputs: []Locked{good, good}}
	if _, err := ParseLock(twice.Encode()); err == nil {
		t.Error("an output is there twice")
	}
}

// FuzzParseLock: any bytes give an error, or a lock that survives a round trip.
func FuzzParseLock(f *testing.F) {
	k := Locked{Path: "a/{hash}.prof", Format: "llvm", SHA256: strings.Repeat("0", 64), Name: "000000000000.prof", Hot: map[string]float64{"f": 0.5}, Decisions: &LockedChange{2, 1}}
	f.Add((&Lock{Schema: LockSchema, Outputs: []Locked{k}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLock(b)
		if err != nil {
			return
		}
		again, err := ParseLock(l.Encode())
		if err != nil || string(again.Encode()) != string(l.Encode()) {
			t.Fatalf("%v: %s", err, l.Encode())
		}
	})
}
