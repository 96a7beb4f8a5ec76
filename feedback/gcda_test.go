package feedback

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"backfeed/feedback/gcov"
)

// notesOf makes notes of functions in this notation, a line each:
//
//	func NAME BLOCKS [FIRST LAST]    its first and last line
//	FROM>TO[!]        an arc; ! is a fake one
//	BLOCK: LINE...    lines of file f
func notesOf(t *testing.T, path, text string) *gcov.Notes {
	t.Helper()
	n := &gcov.Notes{Path: path, Version: 0x42323241} // gcc 12
	var f *gcov.Function
	for _, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
		case w[0] == "func":
			n.Functions = append(n.Functions, gcov.Function{Ident: uint32(len(n.Functions) + 1), CFGChecksum: 7, Name: w[1]})
			f = &n.Functions[len(n.Functions)-1]
			if _, err := fmt.Sscan(w[2], &f.Blocks); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			f.Lines = make([][]gcov.Line, f.Blocks)
			if len(w) > 3 {
				f.Source = "src/f"
				fmt.Sscan(w[3]+" "+w[4], &f.StartLine, &f.EndLine)
			}
		case strings.HasSuffix(w[0], ":"):
			var b, at int
			fmt.Sscan(strings.TrimSuffix(w[0], ":"), &b)
			for _, l := range w[1:] {
				fmt.Sscan(l, &at)
				f.Lines[b] = append(f.Lines[b], gcov.Line{File: "src/f", Line: at})
			}
		default:
			for _, s := range w {
				var a gcov.Arc
				if strings.HasSuffix(s, "!") {
					a.Flags = gcov.Fake
				}
				if _, err := fmt.Sscanf(strings.TrimSuffix(s, "!"), "%d>%d", &a.From, &a.To); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				f.Arcs = append(f.Arcs, a)
			}
		}
	}
	return n
}

// aLoop enters a loop of blocks 2 and 3 on lines 11 and 12, and goes on to line 13; a call on line 12 may not return.
const aLoop = "func f 5\n0>2 2>3 3>2 3>1! 2>4 4>1\n2: 11\n3: 12\n4: 13"

func TestGCDA(t *testing.T) {
	for _, tt := range []struct {
		name  string
		text  string
		notes []string
		want  []string // flows of the arcs of each function, of all notes
	}{
		{
			name: "a loop", text: "proc f@10 x10\nblock x1010\nf:11\nblock x1000\nf:12\nblock x10\nf:13",
			notes: []string{aLoop}, want: []string{"10 1000 1000 0 10 10"},
		},
		{
			name:  "copies add up: out of line, and inlined after notes were made",
			text:  "func f@10\nproc f@10 x10\nblock x1010\nf:11\nblock x1000\nf:12\nblock x10\nf:13\nproc g@20 x5\nblock x505\nf:11<g:21\nblock x500\nf:12<g:21\nblock x5\nf:13<g:21",
			notes: []string{aLoop + "\nfunc g 3\n0>2 2>1\n2: 21"}, want: []string{"15 1500 1500 0 15 15", "-"},
		},
		{
			name:  "functions of C++ that are not linked have their own name alone where they were inlined",
			text:  "proc g@20 x5\nblock x505\nf:11<g:21\nblock x500\nf:12<g:21\nblock x5\nf:13<g:21",
			notes: []string{strings.Replace(aLoop, "func f ", "func _ZN12_GLOBAL__N_11A1fEi.isra.0 ", 1) + "\nfunc _ZN1B1fEv 3\n0>2 2>1\n2: 31\nfunc g 3\n0>2 2>1\n2: 21"},
			want:  []string{"5 500 500 0 5 5", "-", "-"},
		},
		{
			name:  "what was inlined before has its lines in the graph of the caller",
			text:  "func h@30\nproc g@20 x100\nblock x100\ng:21\nblock x30\nh:31<g:21\nblock x100\ng:22",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 4>1\n2: 21\n3: 31\n4: 22"}, want: []string{"100 30 70 30 100"},
		},
		{
			name:  "blocks of one line are those of the code whose executions fit",
			text:  "proc f@10 x8\nblock x8\nf:11\nblock x800\nf:11\nblock x792\nf:11\nblock x792\nf:12\nblock x8\nf:13",
			notes: []string{"func f 6\n0>2 2>3 3>4 4>3 3>5 5>1\n2: 11\n3: 11\n4: 11 12\n5: 13"}, want: []string{"8 8 792 792 8 8"},
		},
		{
			name:  "whether the line of a conditional move ran is guessed, as of each that the code has nothing else of",
			text:  "proc f@10 x100\nblock x100\nf:11\nf:12 chooses\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 25 75 25 100"},
		},
		{
			name:  "a side without lines is the likely one where it follows if a condition is false",
			text:  "proc f@10 x100\nblock x100\nf:11\nf:13",
			notes: []string{"func f 5\n0>2 2>4 2>3 3>4 4>1\n2: 11\n4: 13"}, want: []string{"100 25 75 75 100"},
		},
		{
			name:  "and as likely as not where it follows if that is true",
			text:  "proc f@10 x100\nblock x100\nf:11\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n4: 13"}, want: []string{"100 50 50 50 100"},
		},
		{
			name:  "a call behind a condition on its line ran as often as its instruction",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x2\nf:11 call g x2\nblock x100\nf:12\nproc g@20 x2\nblock x2\ng:21",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 3>1! 4>1\n2: 11\n3: 11\n4: 12\nfunc g 3\n0>2 2>1\n2: 21"}, want: []string{"100 2 98 2 0 100", "2 2"},
		},
		{
			name:  "nothing says that what has a condition's line ran, if the code has that of one block",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x100\nf:12",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n3: 11\n4: 12"}, want: []string{"100 50 50 50 100"},
		},
		{
			name:  "nor by the jump behind it, or by what other code has of its line",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x40\nf:15\nf:12 compares\nf:12 chooses\nf:12 jumps\nblock x60\nf:12\nf:13\nblock x100\nf:14",
			notes: []string{"func f 7\n0>2 2>3 2>4 3>5 3>6 5>6 4>6 6>1\n2: 11\n3: 15\n4: 13\n5: 12\n6: 14"}, want: []string{"100 40 60 20 20 20 60 100"},
		},
		{
			name:  "where some code of a line has a choice alone, what runs less often of it does not tell of the side",
			text:  "proc f@10 x1000\nblock x600\nf:11\nf:12 compares\nblock x0\nf:12 computes\nblock x400\nf:12 chooses\nblock x1000\nf:13",
			notes: []string{"func f 6\n0>2 2>3 3>4 3>5 4>5 5>1\n2: 11\n3: 12\n4: 12\n5: 13"}, want: []string{"1000 1000 500 500 500 1000"},
		},
		{
			name:  "a condition that is decided where control comes from is not tested: what is left of it may be a jump",
			text:  "proc f@10 x10\nblock x10\nf:11\nblock x1000\nf:13\nblock x0\nf:12 jumps\nblock x10\nf:14",
			notes: []string{"func f 6\n0>2 2>3 3>4 3>5 4>3 5>1\n2: 11\n3: 12\n4: 13\n5: 14"}, want: []string{"10 10 1000 10 1000 10"},
		},
		{
			name:  "a jump that does not follow a condition ran as often as its line",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x5\nf:12 jumps\nblock x95\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>1 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 5 95 5 95"},
		},
		{
			name:  "registers are saved on the line on which a function begins, and where they are needed: it is entered as often as its code",
			text:  "proc f@9 x1000\nblock x1000\nf:11\nblock x2\nf:9\nf:12\nblock x2\nf:11",
			notes: []string{"func f 7 9 20\n0>2 2>3 2>4 3>1 4>5 4>6 5>1 6>1\n2: 9\n3: 12\n4: 11\n5: 11\n6: 14"}, want: []string{"1000 2 998 2 2 996 2 996"},
		},
		{
			name:  "but for code of the line that has no choice",
			text:  "proc f@10 x100\nblock x100\nf:11\nf:12\nf:12 chooses\nblock x70\nf:12\nblock x100\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 70 30 70 100"},
		},
		{
			name:  "or with the choice, as what it chooses between was computed before",
			text:  "proc f@10 x100\nblock x100\nf:11\nf:12\nf:12 chooses\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 25 75 25 100"},
		},
		{
			name:  "calls of one function that were inlined before are in the graph in the order of their lines",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:98\nh:31<g:99\nblock x90\nh:32<g:101\nblock x100\ng:100\nh:31<g:101\nblock x10\nh:32<g:99\nblock x100\ng:102",
			notes: []string{"func g 9\n0>2 2>3 3>4 3>5 4>5 5>6 6>7 6>8 7>8 8>1\n2: 98\n3: 31\n4: 32\n5: 100\n6: 31\n7: 32\n8: 102"}, want: []string{"100 100 10 90 10 100 90 10 90 100"},
		},
		{
			name:  "of which the compiler left nothing of one line",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:98\nblock x10\nh:31<g:99\nh:32<g:99\nblock x100\ng:100\nblock x90\nh:32<g:101\nblock x100\ng:102",
			notes: []string{"func g 7\n0>2 2>3 2>4 3>4 4>5 4>6 5>6 6>1\n2: 98\n3: 31 32\n4: 100\n5: 31 32\n6: 102"}, want: []string{"100 10 90 10 90 10 90 100"},
		},
		{
			name:  "what was inlined later has its lines in its own graph, with what was inlined into it before",
			text:  "func h@30\nfunc k@40\nproc g@90 x10\nblock x10\ng:98\nh:31<g:99\nblock x500\nh:31<k:41<g:100\nk:42<g:100\nblock x10\ng:101",
			notes: []string{"func g 4\n0>2 2>3 3>1\n2: 98 31\n3: 101\nfunc k 3\n0>2 2>1\n2: 31 42"}, want: []string{"10 10 10", "500 500"},
		},
		{
			name:  "a call that was inlined later ran as often as that begins, where the code has nothing of its line",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:98\nblock x10\nh:31<g:99\nblock x500\nh:32<g:99\nblock x100\ng:101",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 4>1\n2: 98\n3: 99\n4: 101\nfunc h 5\n0>2 2>3 3>3 3>4 4>1\n2: 31\n3: 32\n4: 33"},
			want:  []string{"100 10 90 10 100", "10 10 490 10 10"},
		},
		{
			name:  "and never where that did not run",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:98\nblock x0\nh:31<g:99\nh:32<g:99\nblock x100\ng:101\nh:31<g:101\nh:32<g:101",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 4>1\n2: 98\n3: 99\n4: 101\nfunc h 4\n0>2 2>3 3>1\n2: 31\n3: 32"},
			want:  []string{"100 0 100 0 100", "100 100 100"},
		},
		{
			name:  "and where its line is that of the condition, too",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:99\nblock x1\nh:31<g:99\nh:32<g:99\nblock x100\ng:101",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 3>1! 4>1\n2: 99\n3: 99\n4: 101\nfunc h 4\n0>2 2>3 3>1\n2: 31\n3: 32"},
			want:  []string{"100 1 99 1 0 100", "1 1 1"},
		},
		{
			name:  "once, where several graphs are of the name that the code has, as of templates",
			text:  "proc g@90 x100\nblock x100\ng:98\nblock x10\nf:31<g:99\nf:32<g:99\nblock x100\ng:101",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 4>1\n2: 98\n3: 99\n4: 101\nfunc _ZN12_GLOBAL__N_11A1fEi 4\n0>2 2>3 3>1\n2: 31\n3: 32\nfunc _ZN12_GLOBAL__N_11A1fEl 4\n0>2 2>3 3>1\n2: 31\n3: 32"},
			want:  []string{"100 10 90 10 100", "10 10 10", "10 10 10"},
		},
		{
			name:  "else as often as that",
			text:  "func h@30\nproc g@90 x100\nblock x100\ng:98\nblock x20\ng:99\nblock x10\nh:31<g:99\nblock x100\ng:101",
			notes: []string{"func g 5\n0>2 2>3 2>4 3>4 4>1\n2: 98\n3: 99\n4: 101\nfunc h 3\n0>2 2>1\n2: 31"},
			want:  []string{"100 20 80 20 100", "10 10"},
		},
		{
			name:  "what only calls what is inlined has no lines, and is in the graph of what it was inlined into first",
			text:  "func h@30\nfunc k@40\nfunc m@50\nproc g@90 x100\nblock x100\ng:98\nh:31<k:41<m:51<g:99\nm:52<g:99",
			notes: []string{"func g 3\n0>2 2>1\n2: 98 31\nfunc m 4\n0>2 2>3 3>1\n2: 31\n3: 52"}, want: []string{"100 100", "100 100 100"},
		},
		{
			name:  "a part that was split off and put back is no call",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x1\nf:12<f:10\nblock x99\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>1 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 1 99 1 99"},
		},
		{
			name:  "a value may be fetched before the branch that its line follows",
			text:  "proc f@10 x100\nblock x100\nf:12\nf:11 compares\nblock x20\nf:12 computes\nblock x100\nf:13",
			notes: []string{"func f 5\n0>2 2>3 2>4 3>4 4>1\n2: 11\n3: 12\n4: 13"}, want: []string{"100 20 80 20 100"},
		},
		{
			name:  "blocks of one line are those of the code by the order of their discriminators, wherever that lies",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:11.2\nblock x10\nf:11.1\nblock x100\nf:12",
			notes: []string{"func f 6\n0>2 2>3 2>4 3>5 4>5 5>1\n2: 11\n3: 11\n4: 11\n5: 12"}, want: []string{"100 10 90 10 90 100"},
		},
		{
			name:  "code of one discriminator is of one block, in several pieces too",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x100\nf:11\nblock x100\nf:11\nblock x4\nf:11.1\nblock x96\nf:11.2\nblock x100\nf:12",
			notes: []string{"func f 6\n0>2 2>3 2>4 3>5 4>5 5>1\n2: 11\n3: 11\n4: 11\n5: 12"}, want: []string{"100 4 96 4 96 100"},
		},
		{
			name: "many blocks of one line are of it, where another line is in several calls",
			text: "func h@30\nproc g@90 x100\nblock x100\ng:98\nh:31<g:99\ng:100\nh:31<g:101\nblock x100\ng:105\nblock x10\ng:105.1\nblock x100\ng:105.3\n" +
				"block x20\ng:105.4\nblock x100\ng:105.6\nblock x30\ng:105.7\nblock x100\ng:105.9",
			notes: []string{"func g 13\n0>2 2>3 3>4 4>5 5>6 6>7 6>8 7>8 8>9 8>10 9>10 10>11 10>12 11>12 12>1\n2: 98\n3: 31\n4: 100\n5: 31\n" +
				"6: 105\n7: 105\n8: 105\n9: 105\n10: 105\n11: 105\n12: 105"},
			want: []string{"100 100 100 100 100 10 90 10 20 80 20 30 70 30 100"},
		},
		{
			name:  "code that several lines were joined in says of its own what control brought to it from there",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:14\nblock x100\nf:13\nf:16\nedge 0>1 taken x90\nedge 0>2 fallthrough x10\nedge 1>2 taken x90",
			notes: []string{"func f 8\n0>2 2>3 2>4 3>5 4>6 5>7 6>1 7>1\n2: 11\n4: 14\n5: 13\n6: 15\n7: 16"}, want: []string{"100 10 90 10 90 10 90 10"},
		},
		{
			name:  "the number of a discriminator says more than its rank, where the code has nothing of some blocks",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x60\nf:11.2\nblock x40\nf:11.3\nblock x100\nf:12",
			notes: []string{"func f 9\n0>2 2>3 2>4 2>5 2>6 2>7 3>8 4>8 5>8 6>8 7>8 8>1\n2: 11\n3: 11\n4: 11\n5: 11\n6: 11\n7: 11\n8: 12"},
			want:  []string{"100 0 60 40 0 0 0 60 40 0 0 100"},
		},
		{
			name:  "code without discriminators is not of one block for that, where other lines have some",
			text:  "proc f@10 x100\nblock x100\nf:10\nblock x100\nf:11\nblock x5\nf:11\nblock x95\nf:11\nblock x100\nf:12\nblock x40\nf:12.1\nblock x100\nf:13",
			notes: []string{"func f 9\n0>2 2>3 3>4 3>5 4>6 5>6 6>7 6>8 7>8 8>1\n2: 10\n3: 11\n4: 11\n5: 11\n6: 12\n7: 12\n8: 13"}, want: []string{"100 100 5 95 5 95 40 60 40 100"},
		},
		{
			name:  "what two sides need is computed before, by the line of one of them: that which stores tells",
			text:  "proc f@10 x100\nblock x100\nf:11 compares\nf:12 computes\nblock x3\nf:12 stores\nblock x97\nf:13 stores\nblock x100\nf:14",
			notes: []string{"func f 6\n0>2 2>3 2>4 3>5 4>5 5>1\n2: 11\n3: 12\n4: 13\n5: 14"}, want: []string{"100 3 97 3 97 100"},
		},
		{
			name:  "a jump in a block of other lines says nothing of its own, as gcc takes it from one of those that go on there",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x2\nf:12 computes\nblock x100\nf:11 computes\nf:13 jumps\nblock x100\nf:14",
			notes: []string{"func f 6\n0>2 2>3 2>5 3>4 4>5 5>1\n2: 11\n3: 12\n4: 13\n5: 14"}, want: []string{"100 2 98 2 2 100"},
		},
		{
			name:  "what a computed goto leads to is no other line's",
			text:  "proc f@10 x1\nblock x1\nf:10\nblock x100\nf:11\nblock x99\nf:13\nblock x1\nf:12\nedge 0>1 indirect x1\nedge 1>2 fallthrough x99\nedge 2>1 indirect x99\nedge 1>3 taken x1",
			notes: []string{"func f 6\n0>2 2>1! 0>3! 3>4 3>5 4>1! 5>1\n2: 10\n3: 11\n4: 13\n5: 12"}, want: []string{"1 1 100 99 1 99 1"},
		},
		{
			name:  "a side that calls, where the code has no call of its line, is the unlikely one, whatever else is left of the lines",
			text:  "proc f@10 x100\nblock x100\nf:11\nblock x100\nf:13",
			notes: []string{"func f 7\n0>2 2>3 2>4 3>5 3>1! 4>6 5>6 6>1\n2: 11\n3: 12\n4: 12\n5: 12\n6: 13"}, want: []string{"100 25 75 25 0 75 25 100"},
		},
		{
			name:  "what is not a whole execution is no function that never runs",
			text:  "proc f@10 x0.2\nblock x0.2\nf:11\nblock x0.2\nf:12\nproc g@20 x5\nblock x5\ng:21",
			notes: []string{aLoop + "\nfunc g 3\n0>2 2>1\n2: 21"}, want: []string{"-", "5 5"},
		},
		{
			name:  "static functions of one name are those of their object",
			text:  "proc f@10 x10\nblock x1010\nf:11\nblock x1000\nf:12\nblock x10\nf:13",
			notes: []string{aLoop, aLoop}, want: []string{"-", "10 1000 1000 0 10 10"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProgram(t, tt.text)
			p.producer, p.unit = "GNU C17 12.2.0", "src/b.c"
			var notes []*gcov.Notes
			for i, text := range tt.notes {
				notes = append(notes, notesOf(t, fmt.Sprintf("build/%c.o.gcno", "ab"[i]), text))
			}
			data, st, err := gcda(p.view, notes, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			largest := int64(0) // of the whole program, which gcc tells hot code by
			for _, d := range data {
				for _, c := range d.Functions {
					largest = max(largest, slices.Max(c.Arcs))
				}
			}
			for i, n := range notes {
				if data[i].Max != uint64(largest) {
					t.Errorf("%s: the largest counter is said to be %d, and is %d", n.Path, data[i].Max, largest)
				}
				for k := range n.Functions {
					f := &n.Functions[k]
					c, ok := data[i].Of(f)
					if !ok {
						got = append(got, "-")
						continue
					}
					flows, err := f.Flows(c.Arcs)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, strings.Trim(fmt.Sprint(flows), "[]"))
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d functions, want %d", len(got), len(tt.want))
			}
			for i := range got {
				if !near(t, got[i], tt.want[i]) {
					t.Errorf("function %d: %s, want about %s (%+v)", i, got[i], tt.want[i], st)
				}
			}
		})
	}
}

// TestGCDAManyCalls: where calls are too many to tell them from one another, each still has executions of its lines.
func TestGCDAManyCalls(t *testing.T) {
	const calls = 600
	arcs, lines, code := "0>2", "", "func h@30\nproc g@1000 x100"
	for i := range calls {
		b := 2 + 3*i
		next := b + 3
		if i == calls-1 {
			next = 1
		}
		arcs += fmt.Sprintf(" %d>%d %d>%d %d>%d %d>%d", b, b+1, b, b+2, b+1, b+2, b+2, next)
		lines += fmt.Sprintf("\n%d: %d 31\n%d: 32\n%d: 33", b, 1000+i, b+1, b+2)
		code += fmt.Sprintf("\nblock x100\ng:%d\nh:31<g:%d\nblock x10\nh:32<g:%d\nblock x100\nh:33<g:%d", 1000+i, 1000+i, 1000+i, 1000+i)
	}
	p := newProgram(t, code)
	p.producer = "GNU C17 12.2.0"
	n := notesOf(t, "g.gcno", fmt.Sprintf("func g %d\n%s%s", 2+3*calls, arcs, lines))
	data, _, err := gcda(p.view, []*gcov.Notes{n}, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &n.Functions[0]
	flows, err := f.Flows(data[0].Functions[0].Arcs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range f.Arcs {
		if want := int64(10); a.From > 1 && a.To == a.From+1 && f.Lines[a.To][0].Line == 32 && (flows[i] < want/2 || flows[i] > 2*want) {
			t.Fatalf("the arc from block %d to %d has %d executions, want about %d", a.From, a.To, flows[i], want)
		}
	}
}

// near reports whether numbers are within 5 %, or 2 % of the largest.
func near(t *testing.T, got, want string) bool {
	t.Helper()
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) != len(w) || (got == "-") != (want == "-") {
		return false
	}
	if got == "-" {
		return true
	}
	a, b, most := make([]float64, len(g)), make([]float64, len(g)), 0.0
	for i := range g {
		fmt.Sscan(g[i], &a[i])
		fmt.Sscan(w[i], &b[i])
		most = max(most, b[i])
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > max(0.05*b[i], 0.02*most) {
			return false
		}
	}
	return true
}

// TestGCDABraces: what a function does where it begins and ends is in no block of its graph, and not told to be left out.
func TestGCDABraces(t *testing.T) {
	p := newProgram(t, "proc f@9 x10\nblock x10\nf:9\nf:10\nblock x1010\nf:11\nblock x1000\nf:12\nblock x10\nf:13\nf:14\nf:15\nf:16")
	p.producer = "GNU C17 12.2.0"
	notes := notesOf(t, "f.gcno", strings.Replace(aLoop, "func f 5", "func f 5 9 15", 1))
	for _, tt := range []struct {
		last    int
		skipped int
	}{{15, 1}, {14, 2}, {13, 3}} {
		notes.Functions[0].EndLine = tt.last
		_, st, err := gcda(p.view, []*gcov.Notes{notes}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Skipped[SkipNoNotes]; got != tt.skipped {
			t.Errorf("of lines 9 to 16, %d are left out where %d is the last, want %d", got, tt.last, tt.skipped)
		}
	}
}

// TestGCDANever: handlers of an interpreter that never ran have no execution. gcc 12 takes what has some for code that runs, and then joins the
// ends of all handlers, whose jumps are the better apart.
func TestGCDANever(t *testing.T) {
	const handlers = 30 // from block 4 on; of every third, the code ran
	text, code := "0>2 2>3 3>1 0>4!", "proc f@10 x10\nblock x10\nf:11\nblock x1000010\nf:12"
	lines := "2: 11\n3: 12"
	for i := range handlers {
		b, n := 4+i, 0
		if i%3 == 0 {
			n = 100000
		}
		text += fmt.Sprintf(" 3>%d %d>3", b, b)
		lines += fmt.Sprintf("\n%d: %d", b, 13+i)
		code += fmt.Sprintf("\nblock x%d\nf:%d", n, 13+i)
	}
	p := newProgram(t, code)
	p.producer = "GNU C17 12.2.0"
	n := notesOf(t, "f.gcno", fmt.Sprintf("func f %d\n%s\n%s", 4+handlers, text, lines))
	data, _, err := gcda(p.view, []*gcov.Notes{n}, 0)
	if err != nil {
		t.Fatal(err)
	}
	flows, err := n.Functions[0].Flows(data[0].Functions[0].Arcs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range n.Functions[0].Arcs {
		if a.To >= 4 && (flows[i] > 0) != ((a.To-4)%3 == 0) {
			t.Errorf("the handler on line %d has %d executions", 9+a.To, flows[i])
		}
	}
}

func TestGCDAEmpty(t *testing.T) {
	p := newProgram(t, "proc f@10 x10\nblock x10\nf:11")
	p.producer = "GNU C17 12.2.0"
	for _, notes := range [][]*gcov.Notes{nil, {notesOf(t, "other.gcno", "func other 3\n0>2 2>1\n2: 11")}} {
		if _, _, err := gcda(p.view, notes, 0); !errors.Is(err, ErrEmpty) {
			t.Errorf("%d notes: %v, want ErrEmpty", len(notes), err)
		}
	}
}

// TestMatching compares with all ways there are.
func TestMatching(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rows, cols := 1+rng.IntN(5), 1+rng.IntN(5)
		cost := make([][]float64, rows)
		for i := range cost {
			for range cols {
				cost[i] = append(cost[i], rng.Float64())
			}
		}
		got, sum, seen := matching(cost), 0.0, map[int]bool{}
		for i, k := range got {
			if k < 0 {
				continue
			}
			if seen[k] {
				t.Fatalf("column %d twice: %v", k, got)
			}
			seen[k] = true
			sum += cost[i][k]
		}
		if len(seen) != min(rows, cols) {
			t.Fatalf("%d of %d by %d: %v", len(seen), rows, cols, got)
		}
		if best := cheapest(cost, 0, nil, min(rows, cols)); math.Abs(sum-best) > 1e-9 {
			t.Fatalf("costs %g, the best way %g: %v of %v", sum, best, got, cost)
		}
	}
}

// cheapest tries all ways to give so many of the rows from i on a column that is not used.
func cheapest(cost [][]float64, i int, used []int, left int) float64 {
	if left == 0 {
		return 0
	}
	if len(cost)-i < left {
		return math.Inf(1)
	}
	best := cheapest(cost, i+1, used, left)
	for k, c := range cost[i] {
		if !slices.Contains(used, k) {
			best = min(best, c+cheapest(cost, i+1, append(slices.Clone(used), k), left-1))
		}
	}
	return best
}

// TestGCDAGraphs: counters of any graph are such as gcc takes: blocks that nothing leads to, loops without an end, arcs twice.
func TestGCDAGraphs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	made := 0
	for range 300 {
		blocks := 3 + rng.IntN(8)
		text, code := fmt.Sprintf("func f %d\n0>2", blocks), "proc f@10 x9"
		for range rng.IntN(3 * blocks) {
			from, to := 2+rng.IntN(blocks-2), 1+rng.IntN(blocks-1)
			text += fmt.Sprintf(" %d>%d%s", from, to, []string{"", "", "!"}[rng.IntN(3)])
		}
		for b := 2; b < blocks; b++ {
			text += fmt.Sprintf("\n%d: %d %d", b, 11+rng.IntN(blocks), 11+b)
		}
		for range blocks {
			code += fmt.Sprintf("\nblock x%g\nf:%d", math.Floor(math.Exp(20*rng.Float64()))-1, 11+rng.IntN(blocks))
		}
		p := newProgram(t, code)
		p.producer = "GNU C17 12.2.0"
		notes := []*gcov.Notes{notesOf(t, "f.gcno", text)}
		data, _, err := gcda(p.view, notes, 0)
		if errors.Is(err, ErrEmpty) {
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, code)
		}
		made += len(data[0].Functions)
	}
	if made < 200 { // others hardly ran
		t.Errorf("%d of 300 functions have counters", made)
	}
}

// BenchmarkGCDA carries counts to a function of so many blocks: pairs of branches in a loop, all of them on few lines, as macros put them.
func BenchmarkGCDA(b *testing.B) {
	for _, blocks := range []int{300, 3000, 30000, 200000} {
		b.Run(fmt.Sprint(blocks), func(b *testing.B) {
			n := &gcov.Notes{Path: "f.gcno", Version: 0x42323241, Functions: []gcov.Function{{Name: "f", Blocks: blocks, Lines: make([][]gcov.Line, blocks)}}}
			f := &n.Functions[0]
			f.Arcs = append(f.Arcs, gcov.Arc{From: 0, To: 2})
			var code strings.Builder
			code.WriteString("proc f@10 x9")
			for i := 2; i < blocks; i++ {
				f.Lines[i] = []gcov.Line{{File: "f", Line: 11 + i%7}}
				next, other := i+1, i+2
				if next >= blocks {
					next, other = 1, 2
				}
				f.Arcs = append(f.Arcs, gcov.Arc{From: i, To: next})
				if i%2 == 0 && other < blocks {
					f.Arcs = append(f.Arcs, gcov.Arc{From: i, To: other})
				}
			}
			for i := range min(blocks, 3000) {
				fmt.Fprintf(&code, "\nblock x%d\nf:%d", 1+i*i%1000, 11+i%7)
			}
			p := newProgram(b, code.String())
			p.producer = "GNU C17 12.2.0"
			for b.Loop() {
				if _, _, err := gcda(p.view, []*gcov.Notes{n}, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
