package forge

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"backfeed/internal/testtool"
)

// kinds runs a test for each dialect.
func kinds(t *testing.T, test func(t *testing.T, w *world)) {
	testtool.Need(t, "git")
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) { test(t, newWorld(t, kind)) })
	}
}

// TestLife: a pull request from its opening to its merge, and the next one.
func TestLife(t *testing.T) {
	testtool.Need(t, "git")
	kinds(t, func(t *testing.T, w *world) {
		w.want(Nothing, 0)
		main := w.branch("main")
		write(t, w.work, "unrelated.txt", "a user's own\n")
		write(t, w.work, "main.go", "package main // edited\n")
		run(t, w.work, "git", "add", "main.go")

		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		write(t, w.work, "backfeed.lock", "{}\n") // a file that git does not know yet
		out := w.want(Opened, 1)
		if want := []string{"backfeed.lock", "cmd/api/default.pgo"}; !slices.Equal(out.Files, want) || !out.Pushed {
			t.Errorf("%+v", out)
		}
		if w.branch(DefaultBranch) != out.Commit || w.branch("main") != main {
			t.Errorf("the branch is at %s, main at %s; commit %s on %s", w.branch(DefaultBranch), w.branch("main"), out.Commit, main)
		}
		if got := run(t, w.remote, "git", "log", "--format=%P %an %ce %s", "-1", out.Commit); got != main+" backfeed backfeed@noreply.invalid default.pgo: refresh" {
			t.Errorf("commit: %s", got)
		}
		if got := run(t, w.remote, "git", "show", "--name-status", "--format=%b", out.Commit); !strings.HasPrefix(got, "What changed.\n\nBackfeed-Refresh: ") || !strings.HasSuffix(got, "\n\nA\tbackfeed.lock\nM\tcmd/api/default.pgo") {
			t.Errorf("commit: %s", got)
		}
		q := w.all()[0]
		if q.Title != "default.pgo: refresh" || q.Base != "main" || q.Branch != DefaultBranch || !strings.HasPrefix(q.Body, "What changed.\n\n| a | b |") {
			t.Errorf("%+v", q)
		}

		// No change, thirty times: one look each, nothing else.
		w.calls = nil
		times := 30
		if w.kind != "github" {
			times = 2
		}
		for range times {
			if o := w.want(Unchanged, 1); o.Pushed || o.Commit != out.Commit {
				t.Fatalf("%+v", o)
			}
		}
		for _, call := range w.calls {
			if !strings.HasPrefix(call, "GET ") {
				t.Errorf("an unchanged run does %s", call)
			}
		}

		// Main moves elsewhere: the commit still applies, and stays.
		people := w.people()
		write(t, people, "main.go", "package main // third\n")
		publish(t, people, "third")
		if o := w.want(Unchanged, 1); o.Commit != out.Commit {
			t.Errorf("pushed because main moved: %+v", o)
		}

		// New content is a new commit on main as it is now, in the same pull request.
		write(t, w.work, "cmd/api/default.pgo", "profile 2\n")
		if o := w.want(Updated, 1); run(t, w.remote, "git", "rev-parse", o.Commit+"^") != w.branch("main") || !o.Pushed {
			t.Errorf("%+v", o)
		}
		if got := run(t, w.remote, "git", "show", DefaultBranch+":cmd/api/default.pgo"); got != "profile 2" {
			t.Errorf("the branch has %q", got)
		}

		// A title that somebody changed stays, as the text is about these files; a text that is not is replaced, without a push.
		w.requests[0].Title = "edited"
		if o := w.want(Unchanged, 1); o.Pushed || w.all()[0].Title != "edited" {
			t.Errorf("%+v", o)
		}
		w.requests[0].Body = "of other files"
		if o := w.want(Updated, 1); o.Pushed || w.all()[0].Title != "default.pgo: refresh" {
			t.Errorf("%+v", o)
		}

		// Merged, the branch left there: it goes, also where the work tree is still the old one.
		w.merge(1)
		if o := w.want(Closed, 0); !o.Pushed || w.branch(DefaultBranch) != "" {
			t.Errorf("%+v, branch %q", o, w.branch(DefaultBranch))
		}
		w.want(Nothing, 0)
		write(t, w.work, "cmd/api/default.pgo", "profile 3\n")
		if _, err := w.propose(); !errors.Is(err, ErrBehind) || !strings.Contains(err.Error(), "default.pgo") {
			t.Errorf("an old checkout: %v", err)
		}
		w.checkout()
		write(t, w.work, "cmd/api/default.pgo", "profile 3\n")
		w.want(Opened, 2)
		if len(w.all()) != 2 {
			t.Errorf("%d pull requests", len(w.all()))
		}
	})
}

// TestWithdraw: what is no longer wanted is closed and may be proposed again.
func TestWithdraw(t *testing.T) {
	testtool.Need(t, "git")
	kinds(t, func(t *testing.T, w *world) {
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		w.want(Opened, 1)
		write(t, w.work, "cmd/api/default.pgo", "profile 0\n")
		w.want(Closed, 1)
		q := w.all()[0]
		if w.branch(DefaultBranch) != "" || q.State != Shut || !strings.HasPrefix(q.Body, "Nothing is left to change in `main`") || !strings.Contains(q.Body, "What changed.") {
			t.Errorf("branch %q, %+v", w.branch(DefaultBranch), q)
		}
		w.want(Nothing, 0)
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		w.want(Opened, 2)
	})
}

// TestDeclined: what a human closed stays closed until the files say something else.
func TestDeclined(t *testing.T) {
	testtool.Need(t, "git")
	kinds(t, func(t *testing.T, w *world) {
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		out := w.want(Opened, 1)
		w.human(1, Shut)
		if o := w.want(Declined, 1); o.Pushed || w.branch(DefaultBranch) != out.Commit {
			t.Errorf("%+v", o)
		}
		run(t, w.remote, "git", "update-ref", "-d", "refs/heads/"+DefaultBranch) // as humans do then
		w.want(Declined, 1)
		if w.branch(DefaultBranch) != "" {
			t.Error("the branch is back")
		}
		c := profile
		c.Dir = w.work
		if m, err := Pending(context.Background(), c, w.api()); err != nil || len(m) != 1 || string(m["cmd/api/default.pgo"]) != "profile 1\n" {
			t.Errorf("declined, the branch gone: %q, %v", m, err)
		}
		write(t, w.work, "cmd/api/default.pgo", "profile 2\n")
		w.want(Opened, 2)
		w.human(2, Shut)
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		w.want(Declined, 1)
		run(t, w.remote, "git", "update-ref", "-d", "refs/heads/"+DefaultBranch)
		for _, ref := range []string{"refs/pull/2/head", "refs/merge-requests/2/head"} {
			run(t, w.remote, "git", "update-ref", "-d", ref)
		}
		if m, err := Pending(context.Background(), c, w.api()); err != nil || m != nil {
			t.Errorf("nothing was kept: %q, %v", m, err)
		}
	})
}

// TestForeign: others' commits stop it, whatever they look like.
func TestForeign(t *testing.T) {
	testtool.Need(t, "git")
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"a commit on top", func(t *testing.T, dir string) {
			write(t, dir, "README", "mine\n")
			run(t, dir, "git", "add", "-A")
			run(t, dir, "git", "commit", "-q", "-m", "mine")
		}},
		{"amended by a person", func(t *testing.T, dir string) {
			write(t, dir, "README", "mine\n")
			run(t, dir, "git", "add", "-A")
			run(t, dir, "git", "commit", "-q", "--amend", "--no-edit", "--reset-author")
		}},
		{"amended by the same committer", func(t *testing.T, dir string) {
			write(t, dir, "README", "mine\n")
			run(t, dir, "git", "add", "-A")
			run(t, dir, "git", "-c", "user.name=backfeed", "-c", "user.email=backfeed@noreply.invalid", "commit", "-q", "--amend", "--no-edit")
		}},
		{"main merged into it", func(t *testing.T, dir string) {
			run(t, dir, "git", "merge", "-q", "--no-ff", "-m", "Merge branch 'main'", "origin/main")
		}},
		{"a branch that was never ours", func(t *testing.T, dir string) {
			run(t, dir, "git", "reset", "-q", "--hard", "origin/main~1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "github")
			write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
			w.want(Opened, 1)
			dir := w.people()
			write(t, dir, "main.go", "package main // third\n")
			publish(t, dir, "third")
			run(t, dir, "git", "config", "user.name", "Jane Roe")
			run(t, dir, "git", "config", "user.email", "jane@example.com")
			run(t, dir, "git", "checkout", "-q", DefaultBranch)
			tt.make(t, dir)
			run(t, dir, "git", "push", "-q", "-f", "origin", "HEAD")
			tip := w.branch(DefaultBranch)
			before := w.all()
			for _, text := range []string{"profile 1\n", "profile 2\n", "profile 0\n"} {
				write(t, w.work, "cmd/api/default.pgo", text)
				_, err := w.propose()
				if err == nil || !strings.Contains(err.Error(), tip[:12]) || !strings.Contains(err.Error(), "it stays as it is") {
					t.Errorf("%q: %v", text, err)
				}
				if tt.name == "a commit on top" && !strings.Contains(err.Error(), `Jane Roe <jane@example.com>, "mine"`) {
					t.Errorf("whose? %v", err)
				}
			}
			if w.branch(DefaultBranch) != tip || !slices.Equal(w.all(), before) {
				t.Error("the branch or the pull request changed")
			}
		})
	}
}

// TestCrash: whatever is done of a run, the next one completes it.
func TestCrash(t *testing.T) {
	testtool.Need(t, "git")
	kinds(t, func(t *testing.T, w *world) {
		dies := func(method string) {
			t.Helper()
			ctx, cancel := context.WithCancel(context.Background())
			w.before = func(r *http.Request) {
				if r.Method != "GET" && strings.Contains(method, r.Method) {
					cancel()
				}
			}
			w.trouble = func(http.ResponseWriter, *http.Request) bool {
				if ctx.Err() != nil {
					panic(http.ErrAbortHandler)
				}
				return false
			}
			c := profile
			c.Dir = w.work
			if out, err := Propose(ctx, c, w.api()); !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", out, err)
			}
			w.before, w.trouble = nil, nil
		}
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		dies("POST") // pushed, and no pull request
		if w.branch(DefaultBranch) == "" || len(w.all()) != 0 {
			t.Fatal("it died elsewhere")
		}
		if out := w.want(Opened, 1); out.Pushed {
			t.Error("pushed again")
		}
		write(t, w.work, "cmd/api/default.pgo", "profile 2\n")
		dies("PATCH PUT") // pushed, the text not
		w.want(Updated, 1)
		write(t, w.work, "cmd/api/default.pgo", "profile 0\n")
		dies("PATCH PUT") // not closed
		w.want(Closed, 1)
		// Closed, the branch not deleted.
		write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
		w.want(Opened, 2)
		w.human(2, Shut)
		w.requests[1].Body = "Nothing is left to change"
		write(t, w.work, "cmd/api/default.pgo", "profile 0\n")
		if w.want(Closed, 0); w.branch(DefaultBranch) != "" {
			t.Error("the branch is still there")
		}
	})
}

// TestAtOnce: of two runs at once there is one branch and one pull request, of one of them.
func TestAtOnce(t *testing.T) {
	testtool.Need(t, "git")
	for _, differ := range []bool{false, true} {
		w := newWorld(t, "github")
		var met sync.WaitGroup
		met.Add(2)
		var seen sync.Map
		w.before = func(r *http.Request) { // both have looked before either pushes
			if _, again := seen.LoadOrStore(r.Header.Get("X-Run"), true); !again {
				met.Done()
				met.Wait()
			}
		}
		outs, errs := make([]Outcome, 2), make([]error, 2)
		var both sync.WaitGroup
		for i := range 2 {
			dir := w.work
			if i == 1 {
				dir += "2"
				run(t, filepath.Dir(dir), "git", "clone", "-q", w.remote, dir)
			}
			text := "profile 1\n"
			if differ && i == 1 {
				text = "profile 2\n"
			}
			write(t, dir, "cmd/api/default.pgo", text)
			api := w.api().(*gitHub)
			api.http = &http.Client{Transport: named(string('a' + rune(i)))}
			both.Go(func() {
				c := profile
				c.Dir = dir
				outs[i], errs[i] = Propose(context.Background(), c, api)
			})
		}
		both.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		all := w.all()
		if len(all) != 1 || all[0].State != Open || outs[0].Number != 1 || outs[1].Number != 1 {
			t.Errorf("%+v, %+v", outs, all)
		}
		tip := w.branch(DefaultBranch)
		if tip != outs[0].Commit && tip != outs[1].Commit {
			t.Errorf("the branch is at %s: %+v", tip, outs)
		}
		if !differ && outs[0].Pushed == outs[1].Pushed {
			t.Errorf("both pushed the same: %+v", outs)
		}
		if n := run(t, w.remote, "git", "rev-list", "--count", "main.."+DefaultBranch); n != "1" {
			t.Errorf("%s commits on the branch", n)
		}
	}
}

// named adds the name of a run to what it asks.
type named string

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Run", string(n))
	return http.DefaultTransport.RoundTrip(r)
}

// TestFaster: a branch that moves under every push is left to who moves it.
func TestFaster(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "github")
	other := filepath.Join(filepath.Dir(w.work), "other")
	run(t, filepath.Dir(w.work), "git", "clone", "-q", w.remote, other)
	n, within := 0, false
	api := w.api()
	w.before = func(*http.Request) {
		if within {
			return
		}
		within = true
		n++
		write(t, other, "cmd/api/default.pgo", "profile of another "+strings.Repeat("x", n))
		c := profile
		c.Dir = other
		if _, err := Propose(context.Background(), c, api); err != nil {
			t.Error(err)
		}
		within = false
	}
	write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
	_, err := w.propose()
	if err == nil || !strings.Contains(err.Error(), "another run was faster") || n != 2 {
		t.Errorf("after %d pushes of another: %v", n, err)
	}
}

// TestHTTP: git over HTTP sees the token in a header and nowhere else, though the checkout
// left a header and a password of its own.
func TestHTTP(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "github")
	backend := filepath.Join(run(t, w.work, "git", "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skipf("needs git-http-backend: %v", err)
	}
	run(t, w.remote, "git", "config", "http.receivepack", "true")
	busy := 2
	served := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, pass, ok := r.BasicAuth(); len(r.Header.Values("Authorization")) != 1 || !ok || user != "x-access-token" || pass != token {
			rw.Header().Set("WWW-Authenticate", "Basic")
			http.Error(rw, "no", http.StatusUnauthorized)
			return
		}
		if busy--; busy >= 0 {
			http.Error(rw, "busy", http.StatusBadGateway)
			return
		}
		(&cgi.Handler{Path: backend, Root: "/", Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(w.remote), "GIT_HTTP_EXPORT_ALL=1"}}).ServeHTTP(rw, r)
	}))
	defer served.Close()
	run(t, w.work, "git", "remote", "set-url", "origin", strings.Replace(served.URL, "://", "://someone:oldpassword@", 1)+"/remote.git")
	run(t, w.work, "git", "config", "http."+served.URL+"/.extraHeader", "Authorization: Basic b2xkOm9sZA==")
	// A git that writes down its arguments.
	argv := filepath.Join(t.TempDir(), "argv")
	real := testtool.Path(t, "git")
	bin := t.TempDir()
	testtool.Write(t, bin, "git", []byte("#!/bin/sh\nprintf '%s ' \"$@\" >>"+argv+"\nexec "+real+" \"$@\"\n"))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
	c := profile
	c.Dir = w.work
	api := w.api().(*gitHub)
	api.server = served.URL
	before := snapshot(t, w.work)
	out, err := Propose(context.Background(), c, api)
	if err != nil || out.Action != Opened {
		t.Fatalf("%+v, %v", out, err)
	}
	if busy > 0 {
		t.Errorf("%d refusals left", busy)
	}
	w.untouched(before)
	said, err := os.ReadFile(argv)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said), "force-with-lease") {
		t.Errorf("arguments were not written down: %s", said)
	}

	// The wrong token: an error, without a secret.
	api.server = "https://elsewhere.example" // the remote is not the forge's host: it gets what the remote's address has
	write(t, w.work, "cmd/api/default.pgo", "profile 2\n")
	_, err = Propose(context.Background(), c, api)
	if err == nil || !strings.Contains(err.Error(), "git ls-remote: ") {
		t.Errorf("another host's token was taken: %v", err)
	}
	for _, text := range []string{string(said), err.Error()} {
		for _, secret := range []string{token, "oldpassword", base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %q", secret, text)
			}
		}
	}
}

// TestPending: what the branch proposes can be read, of our own commits only.
func TestPending(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "gitlab")
	c := profile
	c.Dir, c.Paths = filepath.Join(w.work, "cmd/api"), []string{"default.pgo", "new.pgo"}
	pending := func() map[string][]byte {
		t.Helper()
		m, err := Pending(context.Background(), c, w.api())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := pending(); m != nil {
		t.Errorf("%q of no branch", m)
	}
	write(t, c.Dir, "new.pgo", "new\n")
	os.Remove(filepath.Join(c.Dir, "default.pgo"))
	if out, err := Propose(context.Background(), c, w.api()); err != nil || out.Action != Opened || !slices.Equal(out.Files, []string{"cmd/api/default.pgo", "cmd/api/new.pgo"}) {
		t.Fatalf("%+v, %v", out, err)
	}
	w.checkout()
	if m := pending(); len(m) != 2 || string(m["new.pgo"]) != "new\n" || m["default.pgo"] != nil {
		t.Errorf("%q", m)
	}
	dir := w.people()
	run(t, dir, "git", "checkout", "-q", DefaultBranch)
	write(t, dir, "README", "mine\n")
	publish(t, dir, "mine")
	if m := pending(); m != nil {
		t.Errorf("%q of a person's commit", m)
	}
}

// TestRefused: what makes no sense is said before anything is pushed.
func TestRefused(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "github")
	write(t, w.work, "lfs.pgo", "profile\n")
	write(t, w.work, ".gitattributes", "lfs.pgo filter=lfs\n")
	if err := os.Symlink("/etc", filepath.Join(w.work, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(c *Change)
		want   string
	}{
		{"no files", func(c *Change) { c.Paths = nil }, "no files are named"},
		{"no title", func(c *Change) { c.Title = " " }, "needs a title"},
		{"a file elsewhere", func(c *Change) { c.Paths = []string{"../x"} }, "../x: not below"},
		{"a directory", func(c *Change) { c.Paths = []string{"cmd"} }, "cmd: is a tree of mode 040000"},
		{"beyond a link", func(c *Change) { c.Paths = []string{"link/passwd"} }, "link/passwd: link is no regular file or directory"},
		{"LFS", func(c *Change) { c.Paths = []string{"lfs.pgo"} }, "lfs.pgo: kept by Git LFS"},
		{"into itself", func(c *Change) { c.Base = DefaultBranch }, "into itself"},
		{"no branch", func(c *Change) { c.Branch = "a..b" }, `"a..b" is no name of a branch`},
		{"an option", func(c *Change) { c.Branch = "--all" }, `"--all" is no name of a branch`},
		{"no base", func(c *Change) { c.Base = "trunk" }, "has no branch trunk"},
		{"no repository", func(c *Change) { c.Dir = t.TempDir() }, "not a git repository"},
	} {
		c := profile
		c.Dir = w.work
		tt.change(&c)
		if out, err := Propose(context.Background(), c, w.api()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v; want %q", tt.name, out, err, tt.want)
		}
	}
	if len(w.all()) != 0 || w.branch(DefaultBranch) != "" {
		t.Error("something was pushed or opened")
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "backfeed-forge-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestHooks: no hook of the user's repository or templates runs, and filters do.
func TestHooks(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "github")
	template := t.TempDir()
	ran := filepath.Join(t.TempDir(), "ran")
	for _, dir := range []string{filepath.Join(w.work, ".git/hooks"), filepath.Join(template, "hooks")} {
		for _, hook := range []string{"pre-push", "pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"} {
			write(t, dir, hook, "#!/bin/sh\necho "+hook+" >>"+ran+"\n")
			if err := os.Chmod(filepath.Join(dir, hook), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("GIT_TEMPLATE_DIR", template)
	run(t, w.work, "git", "config", "filter.upper.clean", "tr a-z A-Z")
	write(t, w.work, ".git/info/attributes", "*.pgo filter=upper\n")
	write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
	w.want(Opened, 1)
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("hooks ran: %s", said)
	}
	if got := run(t, w.remote, "git", "show", DefaultBranch+":cmd/api/default.pgo"); got != "PROFILE 1" {
		t.Errorf("the branch has %q", got)
	}
}

// TestPush: a server that refuses is an error that says why, and no other run is blamed.
func TestPush(t *testing.T) {
	testtool.Need(t, "git")
	w := newWorld(t, "github")
	write(t, w.remote, "hooks/pre-receive", "#!/bin/sh\necho profiles are not welcome\nexit 1\n")
	if err := os.Chmod(filepath.Join(w.remote, "hooks/pre-receive"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, w.work, "cmd/api/default.pgo", "profile 1\n")
	out, err := w.propose()
	if err == nil || !strings.Contains(err.Error(), "pre-receive hook declined") || !strings.Contains(err.Error(), "profiles are not welcome") || len(w.all()) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}
