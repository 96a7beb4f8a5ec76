package explain

import (
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// TestStatic: what the model expects goes to the slow operation that takes most of it, and to nothing in particular
// otherwise. The loops take as long as the model expects.
func TestStatic(t *testing.T) {
	const zen4, zen, a53, n1 = "amd-zen4", "amd-zen5", "arm-cortex-a53", "arm-neoverse-n1"
	const ends = " ffce" // dec %esi; the jump follows
	loop := func(b int) float64 { return []float64{1, 1000, 1}[b] }
	for _, tt := range []struct {
		name, model, code string
		i                 int // instruction of the loop
		want              string
		of                int // the instruction that it is for
	}{
		{"divisions in a chain", zen4, "48f7f1 4809c8" + ends + " 75f6", 0, "divider", 0},                                                     // 1: div %rcx; or %rcx,%rax
		{"multiplications in a chain", zen, "480fafc1" + ends + " 75f8", 0, "multiplier", 0},                                                  // 1: imul %rcx,%rax
		{"more than the unit can take", "intel-skylake-x", "480fafd1 480faff9 4c0fafc1 4c0fafc9 83c001" + ends + " 75e9", 0, "multiplier", 0}, // 1: imul %rcx,%rdx; imul %rcx,%rdi; ... into %r8 and %r9
		{"atomic additions", zen4, "f048830701" + ends + " 75f7", 0, "lock", 0},                                                               // 1: lock addq $1,(%rdi)
		{"additions in a chain", zen, "4801c8 4801c8" + ends + " 75f6", 1, "dependency", 0},                                                   // 1: add %rcx,%rax; add %rcx,%rax
		{"floats added in a chain", zen, "f20f58c1" + ends + " 75f8", 0, "dependency", 0},                                                     // 1: addsd %xmm1,%xmm0
		{"in order, what needs a quotient", a53, "0008c29a 03000291 e7031faa a5040071 81ffff54", 1, "divider", 0},                             // 1: udiv x0,x0,x2; add x3,x0,#128; mov x7,xzr; subs w5,w5,#1; b.ne 1b
		{"out of order, a quotient", n1, "0008c29a a5040071 c1ffff54", 0, "divider", 0},                                                       // 1: udiv x0,x0,x2; subs w5,w5,#1; b.ne
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, end := before, " c3"
			if tt.model == a53 || tt.model == n1 {
				first, end = beforeArm, " c0035fd6"
			}
			s := scene{model: tt.model, code: first + tt.code + end, runs: loop, samples: waited(tt.i+1, 5)}
			e := s.explain(t)
			in := &e.Insts[firstInst+tt.i]
			if got := in.Static.String(); got != tt.want {
				t.Errorf("instruction %d waits for %s (%s %s, %.2f cycles), want %s", tt.i, got, in.Why, in.Unit, in.Least, tt.want)
			}
			c, slow := in.Static.Cause()
			if slow && (c.String() != tt.want || in.For != e.Insts[firstInst+tt.of].Addr) {
				t.Errorf("it is %v, for %#x, want %#x", c, uint64(in.For), uint64(e.Insts[firstInst+tt.of].Addr))
			}
		})
	}
}

// TestStaticNames: each slow operation has one Static, of the same name.
func TestStaticNames(t *testing.T) {
	for i, why := range []machine.Why{machine.Together, machine.Dispatch, machine.Dependency, machine.Unit, machine.Fetch} {
		if s := Static(why); int(s) != i || s.String() != why.String() {
			t.Errorf("%d is %s, want %s", s, s, why)
		}
		if _, slow := Static(why).Cause(); slow {
			t.Errorf("%s is a slow operation", why)
		}
	}
	for _, class := range []image.Class{image.Div, image.Mul, image.Locked, image.System, image.Rep} {
		c, _ := slowCause(class)
		if s, ok := slowStatic(class); !ok || s.String() != c.String() {
			t.Errorf("%s is %v, %v", c, s, ok)
		}
	}
	if s, ok := slowStatic(image.Float); ok {
		t.Errorf("floats are %v", s)
	}
}
