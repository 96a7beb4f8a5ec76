package image

import (
	"regexp"
	"strings"
	"sync"
)

// flowCache is what was learnt about the code of an image beyond one procedure.
type flowCache struct {
	mu   sync.Mutex
	ends map[Addr]bool // of addresses of code: whether control never returns from there
	refs struct {
		sync.Once
		*refs
	}
}

// neverReturn are procedures that end the program or the frame of their caller,
// by linker name: of the C library, C++'s runtimes, Rust and Go. Compilers know
// the same from attributes that object files do not carry.
var neverReturn = set(
	"abort", "exit", "_exit", "_Exit", "quick_exit", "__libc_fatal",
	"__stack_chk_fail", "__stack_chk_fail_local", "__chk_fail", "__fortify_fail", "__assert_fail", "__assert", "__assert_perror_fail",
	"__assert_rtn", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "____longjmp_chk", "__longjmp", "__libc_longjmp", "__libc_siglongjmp",
	"pthread_exit", "__pthread_exit", "thrd_exit", "__pthread_unwind", "__pthread_unwind_next",
	"err", "errx", "verr", "verrx", "__malloc_assert",
	"_Unwind_Resume",
	"__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_bad_typeid", "__cxa_throw_bad_array_new_length", "__cxa_throw_bad_array_length",
	"__cxa_pure_virtual", "__cxa_deleted_virtual", "__cxa_call_unexpected", "__cxa_call_terminate", "__clang_call_terminate",
	"_ZSt9terminatev", "_ZSt10unexpectedv", "_ZN10__cxxabiv111__terminateEPFvvE", "_ZN10__cxxabiv112__unexpectedEPFvvE",
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE", "_ZSt21__glibcxx_assert_failPKciS0_S0_",
	"rust_begin_unwind", "rust_panic",
	"runtime.gopanic",
	"runtime.goexit", "runtime.sigpanic", "runtime.sigpanic0", "runtime.dieFromSignal",
	"runtime.unreachableMethod", "runtime.block", "os.Exit", "syscall.Exit", "runtime.Goexit",
	"runtime.abort",
)

// neverReturnPrefixes begin the names of further ones: of Rust's panics in the old
// mangling, and of Go's.
var neverReturnPrefixes = []string{
	"_ZN4core9panicking", "_ZN3std9panicking20rust_panic_with_hook", "_ZN3std9panicking11begin_panic", "_ZN5alloc5alloc18handle_alloc_error",
	"_ZN5alloc7raw_vec17capacity_overflow", "_ZN5alloc7raw_vec12handle_error", "_ZN4core6option13expect_failed", "_ZN4core6option13unwrap_failed",
	"_ZN4core6result13unwrap_failed", "_ZN4core3str16slice_error_fail", "_ZN4core4cell22panic_already", "_ZN3std7process4exit", "_ZN3std7process5abort",
	"runtime.panic", "runtime.goPanic", "runtime.fatal", "runtime.throw",
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// notPanics begin like a prefix of neverReturnPrefixes, and return.
var notPanics = set("runtime.panicCheck1", "runtime.panicCheck2")

// throwers matches the functions by which libstdc++ throws, and Rust's panics of
// core, in both manglings: _ZSt20__throw_length_errorPKc.
var throwers = regexp.MustCompile(`^_ZSt\d+__throw_|^_RN.*4core9panicking|^_ZN4core5slice5index\d+\w+_fail`)

func namedNoReturn(name string) bool {
	name = strings.TrimSuffix(name, ".abi0") // Go's assembly
	if neverReturn[name] {
		return true
	}
	if len(name) < 8 || name[0] != '_' && name[0] != 'r' || notPanics[name] {
		return false
	}
	for _, p := range neverReturnPrefixes {
		// A method or a closure of something called like one is another matter.
		if strings.HasPrefix(name, p) && (name[0] == '_' || !strings.Contains(name[len(p):], ".")) {
			return true
		}
	}
	return throwers.MatchString(name)
}

// procName returns the name that calls to symbol j have: of a stub, the function it leads to.
func (im *Image) procName(j int) string {
	s := &im.Symbols()[j]
	if s.Source == FromPLT {
		return strings.TrimSuffix(s.Name, "@plt")
	}
	return s.Name
}

// nameAt returns the name of the procedure that starts at a, or "".
func (im *Image) nameAt(a Addr) string {
	if j := im.Find(a); j >= 0 && im.Symbols()[j].Addr == a {
		return im.procName(j)
	}
	return ""
}

// callEnds reports whether the call t never comes back: because of what it calls,
// or because there is nothing to come back to.
func (im *Image) callEnds(b *builder, t *transfer) bool {
	if b.nothingAfter(t.off + t.Len) {
		return true
	}
	if t.Class&DirCall != 0 {
		return im.ends(t.Target)
	}
	to, name, _ := im.throughSlot(b.code[t.off:t.off+t.Len], t.Addr)
	return to != 0 && im.ends(to) || to == 0 && namedNoReturn(name)
}

// nothingAfter reports whether only padding is left of the procedure at off.
func (b *builder) nothingAfter(off int) bool {
	for off < len(b.code) {
		in := b.decode(off)
		if !isPadding(b.code[off:], in) {
			return false
		}
		off += in.Len
	}
	return true
}

// ends reports whether control that gets to a never returns to the caller: every
// path from there runs into a trap, an endless loop or another procedure that
// does not return. It is the least solution of that recursion, so it does not
// depend on which procedure is asked for first.
func (im *Image) ends(a Addr) bool {
	im.flow.mu.Lock()
	defer im.flow.mu.Unlock()
	if v, ok := im.flow.ends[a]; ok {
		return v
	}
	q := &endsQuery{im: im, active: make(map[Addr]int), tried: make(map[Addr]int)}
	returns, _ := q.returns(a, 0)
	im.remember(a, !returns)
	return !returns
}

func (im *Image) remember(a Addr, ends bool) {
	if im.flow.ends == nil {
		im.flow.ends = make(map[Addr]bool)
	}
	im.flow.ends[a] = ends
}

// An endsQuery is one search for a path that returns.
type endsQuery struct {
	im     *Image
	active map[Addr]int // being searched, with their depth
	tried  map[Addr]int // no path found yet, with the number of proofs known by then
	proofs int          // procedures shown to return so far
	x86    x86
}

// maxDepth bounds the recursion; what lies deeper is taken to return.
const maxDepth = 10000

const independent = 1 << 30 // a search that met no active procedure

// returns reports whether some path from a returns. If not, it returns the least depth of
// an active procedure that this rests on: once that one is done, it is final.
func (q *endsQuery) returns(a Addr, depth int) (bool, int) {
	if v, ok := q.im.flow.ends[a]; ok {
		return !v, independent
	}
	if d, ok := q.active[a]; ok {
		return false, d
	}
	if n, ok := q.tried[a]; ok && n == q.proofs {
		return false, 0 // rests on something active; nothing was learnt since
	}
	j := q.im.Find(a)
	if j < 0 || depth > maxDepth {
		return true, independent
	}
	s := &q.im.Symbols()[j]
	if s.Addr == a && q.im.namedEnds(s) {
		q.im.remember(a, true)
		return false, independent
	}
	if s.Source == FromPLT {
		// A stub for what the image itself defines: most likely that is what it leads to.
		if j = q.im.Lookup(q.im.procName(j)); j < 0 || q.im.Symbols()[j].Source == FromPLT {
			q.im.remember(a, false)
			return true, independent
		}
		return q.returns(q.im.Symbols()[j].Addr, depth+1)
	}
	q.active[a] = depth
	found, rests := q.search(s, a, depth)
	delete(q.active, a)
	switch {
	case found:
		q.proofs++
		q.im.remember(a, false)
	case rests >= depth: // on nothing but itself
		q.im.remember(a, true)
		rests = independent
	default:
		q.tried[a] = q.proofs
	}
	return found, rests
}

func (im *Image) namedEnds(s *Symbol) bool {
	for _, n := range append([]string{strings.TrimSuffix(s.Name, "@plt")}, s.Aliases...) {
		if namedNoReturn(n) && !(commonNames[n] && im.defines(n)) {
			return true
		}
	}
	return false
}

// defines reports whether the code of a procedure of that name is in the image.
func (im *Image) defines(name string) bool {
	j := im.Lookup(name)
	return j >= 0 && im.Symbols()[j].Source != FromPLT
}

// commonNames are among neverReturn, but programs have functions of their own that are called so
// and return, as gawk has: where the code is at hand, it says.
var commonNames = set("err", "errx", "verr", "verrx")

// A waitingPath waits for a proof that what it calls returns.
type waitingPath struct {
	callee Addr
	next   int // offset behind the call; -1 for a jump that leaves
}

// search follows the code of s from a. Calls are put off until all else is done:
// most procedures have some path that returns without them.
func (q *endsQuery) search(s *Symbol, a Addr, depth int) (bool, int) {
	code := q.im.code(s.Addr, s.Addr+Addr(s.Size))
	if code == nil {
		return true, independent
	}
	seen := make([]bool, len(code))
	work := []int{int(a - s.Addr)}
	var waiting []waitingPath
	rests := independent
	for {
		for len(work) > 0 {
			off := work[len(work)-1]
			work = work[:len(work)-1]
			found := false
			if work, waiting, found = q.follow(s, code, seen, off, work, waiting); found {
				return true, independent
			}
		}
		if len(waiting) == 0 {
			return false, rests
		}
		w := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		ok, r := q.returns(w.callee, depth+1)
		switch {
		case !ok:
			rests = min(rests, r)
		case w.next < 0:
			return true, independent
		default:
			work = append(work, w.next)
		}
	}
}

// switchesStack reports whether the instruction just decoded loads the stack pointer
// with something that is not of this frame: from there on, others may return to
// the caller, as Go's scheduler does behind runtime.mcall.
func (q *endsQuery) switchesStack(code []byte) bool {
	if q.im.Arch == AArch64 {
		return armStack(code).kind == spLost
	}
	return q.x86.loadsStack()
}

// follow decodes from off to the next branch or call. It reports whether it met a
// return, or anything that it cannot see through.
func (q *endsQuery) follow(s *Symbol, code []byte, seen []bool, off int, work []int, waiting []waitingPath) ([]int, []waitingPath, bool) {
	for {
		if off >= len(code) {
			return work, waiting, true // runs on into something else
		}
		if seen[off] {
			return work, waiting, false
		}
		seen[off] = true
		at := s.Addr + Addr(off)
		in := q.im.inst(&q.x86, code[off:], at)
		next := off + in.Len
		switch {
		case in.Class&Trap != 0:
			return work, waiting, false
		case in.Class&(Bad|Ret|IndJump) != 0 || q.switchesStack(code[off:]):
			return work, waiting, true
		case in.Class&IndCall != 0:
			if to, name, _ := q.im.throughSlot(code[off:next], at); to != 0 {
				return work, append(waiting, waitingPath{to, next}), false
			} else if namedNoReturn(name) {
				return work, waiting, false
			}
		case in.Class&DirCall != 0 && in.Target != at+Addr(in.Len):
			if next >= len(code) {
				return work, waiting, false
			}
			return work, append(waiting, waitingPath{in.Target, next}), false
		case in.Class&(Jump|CondJump) != 0:
			if t := in.Target - s.Addr; in.Target >= s.Addr && t < Addr(len(code)) {
				work = append(work, int(t))
			} else {
				waiting = append(waiting, waitingPath{in.Target, -1})
			}
			if in.Class&Jump != 0 {
				return work, waiting, false
			}
		}
		off = next
	}
}
