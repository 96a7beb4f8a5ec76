package forge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"backfeed/internal/testtool"
)

const token = "s3cr3t-t0ken/+"

// A fake is a forge: GitHub's API and GitLab's, over one list of requests, for the branches of
// a bare repository. As the real ones do, it refuses a second request of a branch and one that
// changes nothing, and closes those whose branch is gone.
type fake struct {
	t      *testing.T
	kind   string // github, gitlab, or gitea: GitHub's without its filter
	remote string
	server *httptest.Server

	mu       sync.Mutex
	requests []Request
	calls    []string // method and path, of those that were let through
	trouble  func(w http.ResponseWriter, r *http.Request) bool
	before   func(r *http.Request) // is called first, without the lock
}

func newFake(t *testing.T, kind, remote string) *fake {
	f := &fake{t: t, kind: kind, remote: remote}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// env is what the forge's CI would set.
func (f *fake) env(name string) string {
	env := map[string]string{
		"GITHUB_API_URL": f.server.URL, "GITHUB_REPOSITORY": "Acme/shop", "GITHUB_TOKEN": token, "GITHUB_REF": "refs/heads/main",
		"CI_API_V4_URL": f.server.URL + "/api/v4", "CI_PROJECT_ID": "12", "GITLAB_TOKEN": token, "CI_COMMIT_BRANCH": "main",
	}
	return env[name]
}

func (f *fake) api() API {
	kind := f.kind
	if kind == "gitea" {
		kind = "github"
	}
	api, err := FromEnv(kind, f.env)
	if err != nil {
		f.t.Fatal(err)
	}
	return api
}

func (f *fake) branch(name string) string {
	out, err := command(f.remote, "git", "rev-parse", "--verify", "--quiet", "refs/heads/"+name)
	if err != nil {
		return ""
	}
	return out
}

// all returns the requests as they are now.
func (f *fake) all() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// human closes or merges a request without a word.
func (f *fake) human(number int, s State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[number-1].State = s
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.before != nil {
		f.before(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := r.Header.Get("Authorization"); got != "Bearer "+token {
		f.t.Errorf("%s %s: Authorization %q", r.Method, r.URL, got)
	}
	if strings.Contains(r.URL.String(), token) {
		f.t.Errorf("the token is in %s", r.URL)
	}
	if f.trouble != nil && f.trouble(w, r) {
		return
	}
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	for i := range f.requests {
		if q := &f.requests[i]; q.State == Open && f.branch(q.Branch) == "" {
			q.State = Shut
		}
		f.keep(f.requests[i])
	}
	in := map[string]any{}
	if r.Method != "GET" {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			f.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}
	text := func(name string) string { s, _ := in[name].(string); return s }
	base, body, root := "base", "body", "/repos/Acme/shop/pulls"
	if f.kind == "gitlab" {
		base, body, root = "target_branch", "description", "/api/v4/projects/12/merge_requests"
	}
	switch {
	case r.Method == "GET" && r.URL.Path == strings.TrimSuffix(strings.TrimSuffix(root, "/pulls"), "/merge_requests"):
		f.answer(w, 200, map[string]string{"default_branch": "main"})
	case r.Method == "GET" && r.URL.Path == root:
		f.list(w, r)
	case r.Method == "POST" && r.URL.Path == root:
		q := Request{Number: len(f.requests) + 1, Base: text(base), Title: text("title"), Body: text(body), Branch: text("head") + text("source_branch")}
		q.URL = fmt.Sprintf("%s/%d", f.server.URL, q.Number)
		switch {
		case len(q.Body) > 65536:
			f.answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []map[string]string{{"message": "body is too long (maximum is 65536 characters)"}}})
		case f.branch(q.Branch) == "" || f.branch(q.Base) == "":
			f.answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []map[string]string{{"field": "head", "code": "invalid"}}})
		case find(f.requests, func(o Request) bool { return o.State == Open && o.Branch == q.Branch && o.Base == q.Base }) != nil:
			if f.kind == "gitlab" {
				f.answer(w, 409, map[string]any{"message": []string{"Another open merge request already exists for this source branch: !1"}})
			} else {
				f.answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []map[string]string{{"message": "A pull request already exists for Acme:x."}}})
			}
		default:
			f.requests = append(f.requests, q)
			f.keep(q)
			f.answer(w, 201, f.json(q))
		}
	case (r.Method == "PATCH" || r.Method == "PUT") && strings.HasPrefix(r.URL.Path, root+"/"):
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, root+"/"))
		if err != nil || n < 1 || n > len(f.requests) || (r.Method == "PUT") != (f.kind == "gitlab") {
			f.answer(w, 404, map[string]string{"message": "Not Found"})
			return
		}
		q := &f.requests[n-1]
		for name, to := range map[string]*string{"title": &q.Title, body: &q.Body, base: &q.Base} {
			if v, ok := in[name].(string); ok {
				*to = v
			}
		}
		if text("state") == "closed" || text("state_event") == "close" {
			q.State = Shut
		}
		f.answer(w, 200, f.json(*q))
	default:
		f.answer(w, 404, map[string]string{"message": "Not Found"})
	}
}

// keep has the commits of an open request stay when its branch goes.
func (f *fake) keep(q Request) {
	if q.State == Open {
		for _, ref := range []string{"pull", "merge-requests"} {
			if out, err := command(f.remote, "git", "update-ref", fmt.Sprintf("refs/%s/%d/head", ref, q.Number), f.branch(q.Branch)); err != nil {
				f.t.Error(out, err)
			}
		}
	}
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	branch := v.Get("source_branch")
	if f.kind == "github" {
		var ok bool
		if branch, ok = strings.CutPrefix(v.Get("head"), "Acme:"); !ok {
			f.t.Errorf("head=%q", v.Get("head"))
		}
	}
	var all []any
	for i := len(f.requests) - 1; i >= 0; i-- {
		if q := f.requests[i]; f.kind == "gitea" || q.Branch == branch {
			all = append(all, f.json(q))
		}
	}
	page, _ := strconv.Atoi(v.Get("page"))
	size, _ := strconv.Atoi(v.Get("per_page"))
	from := min((page-1)*size, len(all))
	f.answer(w, 200, append([]any{}, all[from:min(from+size, len(all))]...))
}

// json is a request as the forge writes it.
func (f *fake) json(q Request) map[string]any {
	if f.kind == "gitlab" {
		return map[string]any{"iid": q.Number, "web_url": q.URL, "state": []string{"opened", "closed", "merged"}[q.State], "title": q.Title,
			"description": q.Body, "source_branch": q.Branch, "target_branch": q.Base, "source_project_id": 12, "target_project_id": 12}
	}
	m := map[string]any{"number": q.Number, "html_url": q.URL, "state": []string{"open", "closed", "closed"}[q.State], "title": q.Title,
		"body": strings.ReplaceAll(q.Body, "\n", "\r\n"), "merged_at": nil, "base": map[string]any{"ref": q.Base},
		"head": map[string]any{"ref": q.Branch, "repo": map[string]any{"full_name": "acme/shop"}}}
	if q.State == Merged {
		m["merged_at"] = "2026-11-25T20:00:00Z"
	}
	if q.Body == "" {
		m["body"] = nil
	}
	return m
}

func (f *fake) answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

// A world is a remote repository, a clone of it as CI makes one, and a forge.
type world struct {
	*fake
	t    *testing.T
	work string
}

func newWorld(t *testing.T, kind string) *world {
	testtool.Need(t, "git")
	home := t.TempDir() // no settings of a user, and none that wait for a disk or tidy up what is removed soon
	testtool.Write(t, home, ".gitconfig", "[core]\n\tfsync = none\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, v := range []string{"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"} {
		t.Setenv(v, "")
		os.Unsetenv(v) // an empty name is one to git
	}
	fast(t)
	dir := t.TempDir()
	remote := filepath.Join(dir, "remote.git")
	run(t, dir, "git", "init", "-q", "--bare", "-b", "main", remote)
	run(t, remote, "git", "config", "uploadpack.allowFilter", "true")
	human := filepath.Join(dir, "human")
	run(t, dir, "git", "clone", "-q", remote, human)
	write(t, human, "main.go", "package main\n")
	write(t, human, "cmd/api/default.pgo", "profile 0\n")
	publish(t, human, "first")
	write(t, human, "main.go", "package main // more\n")
	publish(t, human, "second")
	w := &world{newFake(t, kind, remote), t, filepath.Join(dir, "work")}
	w.checkout()
	return w
}

// fast makes waits short.
func fast(t *testing.T) {
	old := sleep
	sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(func() { sleep = old })
}

// checkout clones anew as CI does: shallow, and on no branch.
func (w *world) checkout() {
	os.RemoveAll(w.work)
	run(w.t, filepath.Dir(w.work), "git", "clone", "-q", "--depth=1", "file://"+w.remote, w.work)
	run(w.t, w.work, "git", "checkout", "-q", "--detach")
}

// human is a full clone, where people commit.
func (w *world) people() string {
	dir := filepath.Join(filepath.Dir(w.work), "human")
	run(w.t, dir, "git", "fetch", "-q", "--prune")
	run(w.t, dir, "git", "reset", "-q", "--hard", "origin/main")
	return dir
}

// merge puts the tip of the branch into main as a squash does.
func (w *world) merge(number int) {
	dir := w.people()
	run(w.t, dir, "git", "merge", "-q", "--squash", "origin/"+DefaultBranch)
	publish(w.t, dir, "squashed")
	w.human(number, Merged)
}

var profile = Change{Paths: []string{"cmd/api/default.pgo", "backfeed.lock"}, Title: "default.pgo: refresh", Body: "What changed.\n\n| a | b |\n| - | - |\n"}

func (w *world) propose() (Outcome, error) {
	c := profile
	c.Dir = w.work
	return Propose(context.Background(), c, w.api())
}

func (w *world) want(a Action, number int) Outcome {
	w.t.Helper()
	before := snapshot(w.t, w.work)
	out, err := w.propose()
	if err != nil || out.Action != a || out.Number != number {
		w.t.Fatalf("%+v, %v; want %s of %d", out, err, a, number)
	}
	w.untouched(before)
	return out
}

// untouched compares the user's repository with a snapshot.
func (w *world) untouched(before string) {
	w.t.Helper()
	had := strings.Split(before, "\n")
	for line := range strings.SplitSeq(snapshot(w.t, w.work), "\n") {
		i := slices.Index(had, line)
		if i < 0 {
			w.t.Errorf("changed in the user's repository: %s", line)
			continue
		}
		had[i] = ""
	}
	if gone := strings.TrimSpace(strings.Join(had, "\n")); gone != "" {
		w.t.Errorf("gone from the user's repository: %s", gone)
	}
}

// snapshot is all that a run must not touch: refs, index, settings, objects, and files.
func snapshot(t *testing.T, dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			at := fi.ModTime()
			if strings.HasSuffix(path, ".pack") {
				at = time.Time{} // git freshens what has an object that it is asked to write
			}
			fmt.Fprintf(&b, "%s %s %d %x\n", path, fi.Mode(), at.UnixNano(), sha256.Sum256(text))
		} else {
			fmt.Fprintln(&b, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// publish commits all of a person's clone and pushes it.
func publish(t *testing.T, dir, message string) {
	t.Helper()
	run(t, dir, "git", "add", "-A")
	run(t, dir, "git", "-c", "user.name=Jane Roe", "-c", "user.email=jane@example.com", "commit", "-q", "-m", message)
	run(t, dir, "git", "push", "-q", "origin", "HEAD")
}

func command(dir string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := command(dir, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}
