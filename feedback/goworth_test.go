package feedback

import (
	"io"
	"testing"

	"backfeed/infer/image"
)

// TestGoWorth: what a profile may bring is by the calls that it makes hot and that are out of line, beside all that runs.
func TestGoWorth(t *testing.T) {
	// Of 10,000,000 instructions, one in a thousand is a call of c.
	const calls = "proc a@1 x1\nblock x10000000\na:2 s400\nblock x10000\ncall=a:3 call c x10000\nproc c@9 x10000\nblock x10000\nc:10"
	for _, tt := range []struct {
		name, text string
		asm        bool
		most       float64
		little     bool
	}{
		{"a loop that calls nothing", "proc a@1 x1\nblock x10000000\na:2 s400\nblock x10\ncall=a:3 call c x10\nproc c@9 x10\nblock x10\nc:10", false, 12e-6, true},
		{"a call in a thousand", calls, false, 0.012, false},
		{"of assembly", calls, true, 0, true},
		{"few samples", "proc a@1 x1\nblock x10000000\na:2 s40\nblock x10\ncall=a:3 call c x10\nproc c@9 x10\nblock x10\nc:10", false, 1, false},
		{"a function that calls itself", "proc a@1 x1000000\nblock x1000000\na:2 s400\ncall=a:3 call a x1000000", false, 1, false},
	} {
		p := newProgram(t, tt.text)
		if tt.asm {
			start := p.start("c")
			p.frames[start] = []image.Frame{{Func: "c", File: "c_amd64.s", Line: 10, StartLine: 9}}
		}
		st, err := writeGo(io.Discard, p.ofGo(), GoOptions{})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		w := st.Worth
		if got := w.Most(); got < 0.99*tt.most || got > 1.01*tt.most || w.Little() != tt.little {
			t.Errorf("%s: saves at most %.3g, little: %v; want %.3g, %v", tt.name, got, w.Little(), tt.most, tt.little)
		}
		if least, most, known := w.Saves(); known != (tt.most < 1) || known && (least != twoDigits(w.Most()*LeastPerCall/MostPerCall) || most != twoDigits(w.Most())) {
			t.Errorf("%s: saves %g to %g, known: %v", tt.name, least, most, known)
		}
	}
}

// TestGoWorthTime: time is put to the kinds of code that have it, the most first.
func TestGoWorthTime(t *testing.T) {
	p := newProgram(t, "proc main.a@1 x9\nblock x9\nx=main.a:2 s5\ny=main.a:3 call main.b x9\nproc main.b@9 x9\nblock x9\nb=main.b:9\nproc runtime.b@9 x9\nblock x9\nz=runtime.b:9 s30\nproc internal/runtime/maps.c@9 x9\nblock x9\nc=internal/runtime/maps.c:9 s40")
	st, err := writeGo(io.Discard, p.ofGo(), GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := st.Worth.Time
	if len(got) != 2 || got[0].Kind != GoRuntime || got[0].Samples != 70 || got[0].Hottest != "internal/runtime/maps.c" || got[1].Kind != GoOwn || got[1].Samples != 5 {
		t.Errorf("%+v", got)
	}
}

// TestGoWorthDigits: what is saved has two digits, whoever says it.
func TestGoWorthDigits(t *testing.T) {
	w := GoWorth{Executed: 100_000, Calls: 1404, Time: []GoTime{{Samples: leastWorth}}}
	if least, most, known := w.Saves(); least != 0.021 || most != 0.17 || !known {
		t.Errorf("%g to %g, known: %v", least, most, known)
	}
}
