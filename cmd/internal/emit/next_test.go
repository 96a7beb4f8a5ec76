package emit

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/feedback"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

func TestGoBuild(t *testing.T) {
	for _, tt := range []struct{ profile, main, want string }{
		{"/src/cpu.pgo", "example.com/app/cmd/server", "go build -pgo=/src/cpu.pgo example.com/app/cmd/server"},
		{"/a b/it's.pgo", "command-line-arguments", `go build -pgo='/a b/it'\''s.pgo' .`},
		{"/src/default.pgo", "", "go build -pgo=/src/default.pgo .; in the directory of package main, go build finds default.pgo by itself"},
		{"/src/default.pgo", "example.com/app/hot.test", "go test -pgo=/src/default.pgo -bench . example.com/app/hot; for a program that uses the package, record the program"},
		{"/x.pgo", "command-line-arguments.test", "go test -pgo=/x.pgo -bench . .; for a program that uses the package, record the program"},
	} {
		if got := GoBuild(tt.profile, tt.main); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

func TestGoMeasure(t *testing.T) {
	for main, want := range map[string]string{
		"example.com/app/cmd/server": "backfeed optimize --build 'go build {flags} -o {binary} example.com/app/cmd/server' --compiler go -o server.fast -- {binary} ARGS",
		"example.com/app/hot.test":   "go test -bench . -count 10 example.com/app/hot >old.txt; go test -bench . -count 10 -pgo=/x.pgo example.com/app/hot >new.txt; backfeed verdict old.txt new.txt",
	} {
		if got := GoMeasure("/x.pgo", "/srv/bin/server", main); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestBOLTRewrite: functions are ordered where the linker left relocations; without, llvm-bolt refuses to.
func TestBOLTRewrite(t *testing.T) {
	const none = "../../../testdata/mix/mix"
	im, err := image.Open(none, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	want := "llvm-bolt '/a b/mix' -o mix.bolt -data=/tmp/mix.fdata -reorder-blocks=ext-tsp -split-functions; linked with -Wl,--emit-relocs, "
	if got := BOLTRewrite("/tmp/mix.fdata", "/a b/mix", im); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := BOLTReorder("/tmp/order", "/a b/mix", im); !strings.HasSuffix(got, ", with FDATA of emit bolt, and the program linked with -Wl,--emit-relocs, as it was not") {
		t.Error(got)
	}
}

// TestBOLTStripped: a program without symbols of its own, which llvm-bolt refuses, is not what it is to rewrite.
func TestBOLTStripped(t *testing.T) {
	testtool.Need(t, "strip")
	stripped := filepath.Join(t.TempDir(), "mix")
	testtool.Run(t, ".", "strip", "-o", stripped, "../../../testdata/mix/mix")
	im, err := image.Open(stripped, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	for _, got := range []string{BOLTRewrite("mix.fdata", "mix", im), BOLTReorder("order", "mix", im)} {
		if !strings.Contains(got, "before it was stripped") || strings.Contains(got, "was not") {
			t.Error(got)
		}
	}
	said, err := testtool.Command(t, "llvm-bolt-19", stripped, "-o", stripped+".bolt").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "stripped") {
		t.Errorf("llvm-bolt takes it: %v\n%s", err, said)
	}
}

// TestRust: rustc is told to infer by profi, and of names that it will not find, unless the standard library's may be all.
func TestRust(t *testing.T) {
	const want = "rustc -Zprofile-sample-use='/a b/app.prof' -Cllvm-args=-sample-profile-use-profi, with "
	if got := LLVMBuild("/a b/app.prof", true); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := LLVMBuild("app.prof", true); !strings.HasSuffix(got, ", and the profile by its absolute path") {
		t.Error(got)
	}
	for _, tt := range []struct {
		dotted uint64
		want   string
	}{{0, ""}, {10, ""}, {161, "16.1% of the weight "}} {
		got := strings.Join(dotted(feedback.LLVMStats{Total: 1000, Rust: 900, Dotted: tt.dotted}), "\n")
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%d of 1000: %q, want %q", tt.dotted, got, tt.want)
		}
	}
}

func TestLinkBuild(t *testing.T) {
	const same = ", with the same sources and options as the recorded build"
	for _, tt := range []struct {
		linker, order string
		rust          bool
		want          string
	}{
		{"lld", "/a/p.order", false, "clang -ffunction-sections -fuse-ld=lld -Wl,--symbol-ordering-file=/a/p.order" + same},
		{"gold", "p.order", false, "gcc -ffunction-sections -fuse-ld=gold -Wl,--section-ordering-file=p.order" + same},
		{"ld", "p.order", false, "gcc -ffunction-sections -Wl,--section-ordering-file=p.order" + same + ", and GNU ld 2.43 or later"},
		{"ld-script", "my order", false, "gcc -ffunction-sections -Wl,-T,'my order'" + same},
		{"lld", "/a/p.order", true, "rustc -Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--symbol-ordering-file=/a/p.order" + same},
		{"ld-script", "p.ld", true, "rustc -Clink-arg=-fuse-ld=bfd -Clink-arg=-Wl,-T,p.ld" + same + ", and the order by its absolute path"},
	} {
		if got := LinkBuild(tt.linker, tt.order, tt.rust); got != tt.want {
			t.Errorf("%s, rust %v:\n got %s\nwant %s", tt.linker, tt.rust, got, tt.want)
		}
	}
}
