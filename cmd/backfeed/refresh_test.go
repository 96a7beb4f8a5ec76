package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"backfeed/feedback"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// A fakeForge is as much of GitHub as one pull request needs.
type fakeForge struct {
	sync.Mutex
	opened, updated int
	pull            map[string]any // nil is none
}

func (f *fakeForge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Lock()
	defer f.Unlock()
	var in map[string]any
	if b, _ := io.ReadAll(r.Body); len(b) > 0 {
		json.Unmarshal(b, &in)
	}
	var answer any
	switch {
	case r.Method == "GET" && f.pull == nil:
		answer = []any{}
	case r.Method == "GET":
		answer = []any{f.pull}
	case r.Method == "POST":
		f.opened++
		f.pull = map[string]any{
			"number": f.opened, "html_url": "http://forge/1", "state": "open", "title": in["title"], "body": in["body"],
			"head": map[string]any{"ref": in["head"], "repo": map[string]any{"full_name": "o/r"}}, "base": map[string]any{"ref": in["base"]},
		}
		w.WriteHeader(http.StatusCreated)
		answer = f.pull
	default:
		f.updated++
		for k, v := range in {
			if k != "base" {
				f.pull[k] = v
			}
		}
		answer = f.pull
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// TestRefreshPropose: the first profile opens a pull request. Thirty recordings of that workload change nothing about it, and
// once it is merged none opens another; a procedure that does not run any more does, and the text says which.
func TestRefreshPropose(t *testing.T) {
	testtool.Need(t, "git")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	f := &fakeForge{}
	server := httptest.NewServer(f)
	defer server.Close()
	for name, value := range map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_API_URL": server.URL, "BACKFEED_TOKEN": "secret", "GITHUB_REF": "refs/heads/main", "GITHUB_SERVER_URL": server.URL} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	git := func(at string, args ...string) {
		t.Helper()
		testtool.Run(t, at, append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	}
	remote, human, job := filepath.Join(dir, "remote.git"), filepath.Join(dir, "human"), filepath.Join(dir, "job")
	git(dir, "init", "-q", "--bare", "-b", "main", remote)
	git(dir, "clone", "-q", remote, human)
	testtool.Put(t, filepath.Join(human, "mix"), []byte(testtool.Read(t, "../../testdata/mix/mix")))
	testtool.Write(t, human, "backfeed.yaml", "refresh: {targets: {mix: {sources: ../now.bfr, image: mix, outputs: [llvm: mix.prof, bolt: mix.fdata]}}}")
	git(human, "add", ".")
	git(human, "commit", "-q", "-m", "first")
	git(human, "push", "-q", "origin", "HEAD:main")

	rec, err := sample.Decode([]byte(testtool.Read(t, "../../testdata/mix/samples.bfr")))
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open("../../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	symbol := im.Symbols()[im.Lookup("gcd_sum.constprop.0")]
	from, _ := im.OffsetOf(symbol.Addr)
	run := func(seed uint64, weight float64) string {
		t.Helper()
		r := sets.Resampled(rec, seed, 8000, func(off sample.Offset) float64 {
			if off >= from && off < from+sample.Offset(symbol.Size) {
				return weight
			}
			return 1
		})
		testtool.Put(t, filepath.Join(dir, "now.bfr"), r.Encode())
		os.RemoveAll(job)
		git(dir, "clone", "-q", "--depth=1", "file://"+remote, job)
		code, _, errs := runCLI(t, "refresh", "--config", filepath.Join(job, "backfeed.yaml"), "--propose", "github")
		if code != exitDone || strings.Contains(errs, "secret") {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return errs
	}
	want := func(when string, opened, updated int) {
		t.Helper()
		if f.opened != opened || f.updated != updated {
			t.Fatalf("%s: %d pull requests opened, %d updates; want %d and %d", when, f.opened, f.updated, opened, updated)
		}
	}
	run(1, 1)
	want("the first profile", 1, 0)
	for seed := range uint64(15) {
		run(2+seed, 1)
		want("the same workload, while it is open", 1, 0)
	}
	git(human, "fetch", "-q")
	git(human, "merge", "-q", "--ff-only", "origin/backfeed/refresh")
	git(human, "push", "-q", "origin", "HEAD:main")
	git(human, "push", "-q", "origin", ":backfeed/refresh")
	f.pull["merged_at"], f.pull["state"] = "2026-01-01T00:00:00Z", "closed"
	for seed := range uint64(15) {
		run(20+seed, 1)
		want("the same workload, once it is merged", 1, 0)
	}
	run(40, 0.0001)
	want("another workload", 2, 0)
	if body := f.pull["body"].(string); !strings.Contains(body, "gcd_sum") || !strings.Contains(body, "mix.prof") {
		t.Errorf("its text is %s", body)
	}
	run(41, 1)
	if f.pull["state"] != "closed" || f.opened != 2 {
		t.Errorf("nothing is left to change: %v, %d opened", f.pull["state"], f.opened)
	}
}

// renamedGo is a program of two packages; PKG is the name of one of them.
var renamedGo = map[string]string{
	"go.mod": "module example.com/r\n\ngo 1.24\n",
	"PKG/PKG.go": `package PKG

func Mix(h, x uint32) uint32 {
	h ^= x
	for range 3 {
		h = h<<13 | h>>19
		h = h*0x9e3779b1 + x
		if h&7 == 0 {
			h ^= x >> 3
		}
		h = h<<7 | h>>25
		if h&15 == 3 {
			h += x<<2 ^ h>>5
		}
	}
	return h
}

func Sum(b []uint32) (h uint32) {
	for _, x := range b {
		h = Mix(h, x)
	}
	return h
}
`,
	"main.go": `package main

import (
	"fmt"
	"os"
	"runtime/pprof"

	"example.com/r/PKG"
)

func main() {
	f, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	pprof.StartCPUProfile(f)
	b := make([]uint32, 1<<16)
	for i := range b {
		b[i] = uint32(i)
	}
	var h uint32
	for range 2500 {
		h ^= PKG.Sum(b)
	}
	pprof.StopCPUProfile()
	fmt.Println(h)
}
`,
}

// TestRefreshRenamed: samples of a build whose package had another name make a profile of the names that it has now.
func TestRefreshRenamed(t *testing.T) {
	testtool.Live(t, "builds and samples a program")
	testtool.Need(t, "go")
	dir := t.TempDir()
	for _, name := range []string{"codec", "coding"} {
		for path, text := range renamedGo {
			file := filepath.Join(dir, name, strings.ReplaceAll(path, "PKG", name))
			os.MkdirAll(filepath.Dir(file), 0o777)
			testtool.Put(t, file, []byte(strings.ReplaceAll(text, "PKG", name)))
		}
		testtool.Run(t, filepath.Join(dir, name), "go", "build", "-pgo=off", "-o", "app", ".")
	}
	testtool.Run(t, filepath.Join(dir, "codec"), "./app", "../cpu.pprof")
	config := testtool.Write(t, dir, "backfeed.yaml", `
refresh:
  targets:
    app: {sources: cpu.pprof, image: coding/app, builds: codec, limits: {min-samples: 20, min-known: 0}, outputs: [go: coding/default.pgo]}
`)
	code, out, errs := runCLI(t, "refresh", "--config", config)
	if code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	d, err := feedback.DecideGo(strings.NewReader(testtool.Read(t, filepath.Join(dir, "coding/default.pgo"))))
	if err != nil || d.Hot == 0 {
		t.Fatalf("%v: %+v", err, d)
	}
	said := testtool.Run(t, filepath.Join(dir, "coding"), "go", "build", "-gcflags=example.com/r/...=-m=2 -d=pgodebug=1", "-o", "fed", ".")
	if !strings.Contains(said, "hot-callsite identified at line=example.com/r/coding.Sum") && !strings.Contains(said, "hot-node enabled increased budget=2000 for func=example.com/r/coding.Mix") {
		t.Errorf("the compiler finds no hot call in package coding:\n%s", said)
	}
}
