package forge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
)

// A repository is the one that is proposed to, seen from a scratch repository: a bare one
// that holds nothing but what was fetched of two branches and what is to be pushed.
type repository struct {
	api         API
	top         string // of the user's work tree
	prefix      string // of Change.Dir below it, with a slash at the end unless it is ""
	paths       []string
	branch      string
	base        string
	title, body string

	tmp     string   // the scratch repository
	remote  string   // its address, free of a user and a password
	env     []string // of every git
	auth    []string // of those that speak to the remote, too
	secrets []string // what no message may say
}

// A file is one of Change.Paths in the work tree.
type file struct {
	path string // from the top, with slashes
	blob string // "" if it is not there
	mode string // at HEAD, or that of a plain file
	head string // its blob at HEAD; "" if it is not there
}

// A state is what the remote's branches were at one look.
type state struct {
	base string // commit
	tip  *commit
}

// plain is the mode of a file that nobody executes.
const plain = "100644"

// open finds the work tree's remote and branch and makes the scratch repository.
func open(ctx context.Context, c Change, api API) (_ *repository, err error) {
	c.Branch, c.Dir = cmp.Or(c.Branch, DefaultBranch), cmp.Or(c.Dir, ".")
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &repository{api: api, branch: c.Branch, base: c.Base, title: oneLine(c.Title), body: c.Body, top: c.Dir}
	r.env = environment(os.Environ())
	remote := api.Remote()
	if remote.Token != "" {
		r.secrets = append(r.secrets, remote.Token, base64.StdEncoding.EncodeToString([]byte(remote.User+":"+remote.Token)))
	}
	where, err := r.users(ctx, "rev-parse", "--show-object-format", "--show-prefix", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err)
	}
	fields := strings.SplitN(string(where), "\n", 3)
	if len(fields) != 3 {
		return nil, fmt.Errorf("%s: git says %q of where it is", c.Dir, where)
	}
	r.prefix, r.top = fields[1], strings.TrimSuffix(fields[2], "\n")
	for _, p := range c.Paths {
		r.paths = append(r.paths, r.prefix+filepath.ToSlash(filepath.Clean(p)))
	}
	slices.Sort(r.paths)
	r.paths = slices.Compact(r.paths)

	if r.base == "" {
		if head, err := r.users(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
			r.base = strings.TrimSpace(string(head))
		} else if r.base, err = api.Base(ctx); err != nil {
			return nil, fmt.Errorf("HEAD is detached, and no branch to merge into is named: %w", err)
		}
	}
	for _, name := range []string{r.branch, r.base} {
		if _, err := r.users(ctx, "check-ref-format", "refs/heads/"+name); err != nil || strings.HasPrefix(name, "-") {
			return nil, fail.Errorf(fail.Usage, "%q is no name of a branch", name)
		}
	}
	if r.base == r.branch {
		return nil, fail.Errorf(fail.Usage, "branch %s cannot be merged into itself: check out, or name, the one to merge into", r.branch)
	}
	if err := r.setRemote(ctx, remote); err != nil {
		return nil, err
	}

	if r.tmp, err = os.MkdirTemp("", "backfeed-forge-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	// No template: it might have hooks.
	if _, err := r.own(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+fields[0], r.tmp); err != nil {
		return nil, err
	}
	_, err = r.own(ctx, "config", "remote.origin.url", r.remote)
	return r, err
}

func (r *repository) close() { os.RemoveAll(r.tmp) }

// setRemote finds where to push: to origin, or the only remote there is. The token goes
// there if it is the forge's own host, and nowhere else.
func (r *repository) setRemote(ctx context.Context, c Credential) error {
	names, err := r.users(ctx, "remote")
	if err != nil {
		return err
	}
	remotes := strings.Fields(string(names))
	name := "origin"
	if len(remotes) == 1 {
		name = remotes[0]
	}
	if !slices.Contains(remotes, name) {
		return fail.Errorf(fail.Usage, "%s: no remote is named origin", r.top)
	}
	text, err := r.users(ctx, "remote", "get-url", "--push", name)
	if err != nil {
		return err
	}
	r.remote = strings.TrimSpace(string(text))
	u, err := url.Parse(r.remote)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		if before, _, scp := strings.Cut(r.remote, ":"); !filepath.IsAbs(r.remote) && (!scp || strings.Contains(before, "/")) {
			r.remote = filepath.Join(r.top, r.remote)
		}
		return nil
	}
	own := u.User
	if password, ok := own.Password(); ok {
		r.secrets = append(r.secrets, password, url.QueryEscape(password))
	}
	u.User = nil
	r.remote = u.String()
	user, token := own.Username(), ""
	if forge, err := url.Parse(c.Server); err == nil && forge.Scheme == u.Scheme && strings.EqualFold(forge.Host, u.Host) {
		user, token = c.User, c.Token
	}
	if token == "" { // another host than the forge's, or no token: what the remote's address has is all there is
		token, _ = own.Password()
	}
	if token == "" {
		return nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	r.secrets = append(r.secrets, basic)
	// The empty value drops what a checkout action left in settings: a server refuses two
	// headers. The address in full is the nearest match, so these are read last.
	key := "http." + r.remote + ".extraHeader"
	r.auth = settings(r.env, key, "", key, "Authorization: Basic "+basic)
	return nil
}

// environment returns the environment of every git: it asks nobody, says what it says in
// English, and is not told of a repository by way of variables, as hooks are.
func environment(env []string) []string {
	var kept []string
	for _, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_QUARANTINE_PATH",
			"GIT_TRACE", "GIT_TRACE_CURL", "GIT_CURL_VERBOSE", "GIT_TRACE_PACKET": // traces may show a header
		default:
			kept = append(kept, kv)
		}
	}
	kept = append(kept, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "SSH_ASKPASS_REQUIRE=never", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_REPLACE_OBJECTS=1")
	if os.Getenv("GIT_SSH_COMMAND") == "" && os.Getenv("GIT_SSH") == "" {
		kept = append(kept, "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
	}
	return settings(kept, "core.hooksPath", os.DevNull, "core.fsmonitor", "false", "gc.auto", "0", "maintenance.auto", "false",
		"push.gpgSign", "false", "submodule.recurse", "false", "http.lowSpeedLimit", "1000", "http.lowSpeedTime", "60")
}

// settings returns env with settings of git added to those that it has.
func settings(env []string, keysAndValues ...string) []string {
	n := 0
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		v, ok := strings.CutPrefix(kv, "GIT_CONFIG_COUNT=")
		if ok {
			n, _ = strconv.Atoi(v)
		}
		return ok
	})
	for i := 0; i < len(keysAndValues); i += 2 {
		out = append(out, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, keysAndValues[i]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, keysAndValues[i+1]))
		n++
	}
	return append(out, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// A gitError is what git said as it failed.
type gitError struct {
	command string
	said    string
	err     error
}

func (e *gitError) Error() string {
	said := e.said
	if said == "" {
		said = e.err.Error()
	}
	return "git " + e.command + ": " + said
}
func (e *gitError) Unwrap() error { return e.err }

// git runs one command.
func (r *repository) git(ctx context.Context, env []string, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(stdin), &out, &errs
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fail.Errorf(fail.Machine, "needs git: %w", err)
	}
	if err != nil {
		command := args[0]
		if command == "-C" || command == "--git-dir" {
			command = args[2]
		}
		return out.Bytes(), &gitError{command, r.redact(strings.TrimSpace(errs.String())), err}
	}
	return out.Bytes(), nil
}

// users runs git in the user's work tree; only commands that read it.
func (r *repository) users(ctx context.Context, args ...string) ([]byte, error) {
	return r.git(ctx, r.env, nil, append([]string{"-C", r.top}, args...)...)
}

// own runs git in the scratch repository.
func (r *repository) own(ctx context.Context, args ...string) ([]byte, error) {
	return r.git(ctx, r.network(), nil, append([]string{"--git-dir", r.tmp}, args...)...)
}

// network is the environment of commands that may speak to the remote: objects that were
// left out of a fetch come when they are asked for.
func (r *repository) network() []string {
	if r.auth != nil {
		return r.auth
	}
	return r.env
}

var password = regexp.MustCompile(`(://)[^/@\s']*@`)

// redact takes what is secret out of a message.
func (r *repository) redact(s string) string {
	return password.ReplaceAllString(hide(s, r.secrets), "${1}")
}

func hide(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}

// passing matches what git says of failures that pass.
var passing = regexp.MustCompile(`(?i)returned error: (429|5\d\d)|HTTP (429|5\d\d)|could not resolve host|connection (reset|refused|timed out)|timed out|early EOF|RPC failed|hung up unexpectedly|operation too slow`)

// reach runs a command that speaks to the remote, and again where a failure may pass.
func (r *repository) reach(ctx context.Context, args ...string) ([]byte, error) {
	for try := 0; ; try++ {
		out, err := r.own(ctx, args...)
		var g *gitError
		if err == nil || try == tries-1 || !errors.As(err, &g) || !passing.MatchString(g.said) {
			return out, err
		}
		if err := sleep(ctx, backoff(try)); err != nil {
			return out, err
		}
	}
}

// files reads what the work tree says of the paths. Their blobs are written to the scratch
// repository, by the settings and attributes of the user's.
func (r *repository) files(ctx context.Context) ([]file, error) {
	head, err := r.entries(ctx, r.users, "HEAD")
	if err != nil {
		if _, none := r.users(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); none == nil {
			return nil, err
		}
	}
	objects, err := r.users(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	env := append(slices.Clone(r.env), "GIT_OBJECT_DIRECTORY="+filepath.Join(r.tmp, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+strconv.Quote(strings.TrimSuffix(string(objects), "\n")))
	var all []file
	for _, p := range r.paths {
		f := file{path: p, mode: plain, head: head[p].blob}
		if e, ok := head[p]; ok {
			f.mode = e.mode
		}
		there, err := r.regular(p)
		if err != nil {
			return nil, err
		}
		if there {
			filter, err := r.users(ctx, "check-attr", "-z", "filter", "--", p)
			if err != nil {
				return nil, err
			}
			if fields := strings.Split(string(filter), "\x00"); len(fields) > 2 && fields[2] == "lfs" {
				return nil, fail.Errorf(fail.Usage, "%s: kept by Git LFS (.gitattributes), where a push by plumbing uploads nothing: except it there, or pin the profile", p)
			}
			id, err := r.git(ctx, env, nil, "-C", r.top, "hash-object", "-w", "--", p)
			if err != nil {
				return nil, err
			}
			f.blob = strings.TrimSpace(string(id))
		}
		all = append(all, f)
	}
	return all, nil
}

// regular reports whether a regular file is at path, that no link leads to.
func (r *repository) regular(path string) (bool, error) {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		fi, err := os.Lstat(filepath.Join(r.top, filepath.FromSlash(path[:i])))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		switch {
		case err != nil:
			return false, err
		case i == len(path) && !fi.Mode().IsRegular(), fi.Mode()&os.ModeSymlink != 0:
			return false, fail.Errorf(fail.Usage, "%s: %s is no regular file or directory", path, path[:i])
		}
	}
	return true, nil
}

// An entry is a file in a tree.
type entry struct{ mode, blob string }

// entries returns the paths that a tree or commit has.
func (r *repository) entries(ctx context.Context, git func(context.Context, ...string) ([]byte, error), tree string) (map[string]entry, error) {
	out, err := git(ctx, append([]string{"ls-tree", "-z", "--full-tree", tree, "--"}, r.paths...)...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]entry)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, path, ok := strings.Cut(line, "\t") // "100644 blob 1f0e...\tpath"
		fields := strings.Fields(meta)
		if !ok || len(fields) != 3 {
			continue
		}
		if fields[1] != "blob" || fields[0] == "120000" {
			return nil, fail.Errorf(fail.Usage, "%s: is a %s of mode %s in %s", path, fields[1], fields[0], tree)
		}
		all[path] = entry{fields[0], fields[2]}
	}
	return all, nil
}

const (
	baseRef = "refs/heads/base"
	tipRef  = "refs/heads/tip"
)

// look fetches the tips of both branches, and of each commit the one before it.
func (r *repository) look(ctx context.Context) (state, error) {
	var s state
	base, branch := "refs/heads/"+r.base, "refs/heads/"+r.branch
	out, err := r.reach(ctx, "ls-remote", "origin", base, branch)
	if err != nil {
		return s, err
	}
	var specs []string
	for line := range strings.Lines(string(out)) {
		switch _, ref, _ := strings.Cut(strings.TrimSpace(line), "\t"); ref {
		case base:
			specs = append(specs, "+"+base+":"+baseRef)
		case branch:
			specs = append(specs, "+"+branch+":"+tipRef)
		}
	}
	if !slices.ContainsFunc(specs, func(s string) bool { return strings.HasSuffix(s, ":"+baseRef) }) {
		return s, fail.Errorf(fail.Usage, "%s has no branch %s", r.remote, r.base)
	}
	if len(specs) == 1 {
		if _, err := r.own(ctx, "update-ref", "-d", tipRef); err != nil {
			return s, err
		}
	}
	if err := r.fetch(ctx, specs...); gone(err) {
		return s, errMoved // deleted since ls-remote
	} else if err != nil {
		return s, err
	}
	id, err := r.own(ctx, "rev-parse", "--verify", baseRef)
	if err != nil {
		return s, err
	}
	s.base = strings.TrimSpace(string(id))
	if len(specs) == 2 {
		s.tip, err = r.readCommit(ctx, tipRef)
	}
	return s, err
}

// fetch brings refs two commits deep: what a commit changed. Files come when they are asked for.
func (r *repository) fetch(ctx context.Context, specs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth=2", "--filter=blob:none", "origin"}
	_, err := r.reach(ctx, append(args, specs...)...)
	return err
}

// gone reports whether git failed because the remote lacks a ref.
func gone(err error) bool {
	var g *gitError
	return errors.As(err, &g) && strings.Contains(g.said, "couldn't find remote ref")
}

// behind refuses where the checkout and base differ in a file: the run saw another one. What
// the work tree and base have alike is no matter.
func (r *repository) behind(ctx context.Context, s state, files []file) error {
	base, err := r.entries(ctx, r.own, s.base)
	if err != nil {
		return err
	}
	for _, f := range files {
		if b := base[f.path].blob; b != f.head && b != f.blob {
			return fmt.Errorf("%s: %s of the remote has another than the commit that is checked out: %w", f.path, r.base, ErrBehind)
		}
	}
	return nil
}

// tree makes the tree of base with the files as the work tree has them.
func (r *repository) tree(ctx context.Context, s state, files []file) (string, error) {
	env := append(slices.Clone(r.network()), "GIT_INDEX_FILE="+filepath.Join(r.tmp, "index"))
	git := func(stdin string, args ...string) ([]byte, error) {
		return r.git(ctx, env, []byte(stdin), append([]string{"--git-dir", r.tmp}, args...)...)
	}
	if _, err := git("", "read-tree", s.base); err != nil {
		return "", err
	}
	var list strings.Builder
	for _, f := range files {
		if f.blob == "" {
			fmt.Fprintf(&list, "0 %s\t%s\x00", strings.Repeat("0", len(s.base)), f.path)
		} else {
			fmt.Fprintf(&list, "%s %s\t%s\x00", f.mode, f.blob, f.path)
		}
	}
	if _, err := git(list.String(), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	id, err := git("", "write-tree", "--missing-ok")
	return strings.TrimSpace(string(id)), err
}

// A change is a file that differs between two trees, its mode with its blob; blob is "" where
// it is removed, was where it is new.
type change struct {
	path      string
	was, blob string
	mode      string
}

type changes []change

// changes returns what differs between two commits or trees, by path.
func (r *repository) changes(ctx context.Context, from, to string) (changes, error) {
	out, err := r.own(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to)
	if err != nil {
		return nil, err
	}
	var all changes
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		// ":100644 100644 0f3c... 77ab... M" then the path
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("git diff-tree: %q", fields[i])
		}
		none := strings.Repeat("0", len(f[3]))
		all = append(all, change{fields[i+1], strings.Replace(f[2], none, "", 1), strings.Replace(f[3], none, "", 1), f[1]})
	}
	return all, nil
}

func (c changes) equal(d changes) bool { return slices.Equal(c, d) }

// digest names what files become, whatever they were.
func (c changes) digest() string {
	h := sha256.New()
	for _, ch := range c {
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00", ch.path, ch.mode, ch.blob)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// push makes the remote's branch be commit, or deletes it where that is "", unless it has
// moved since s was seen: then errMoved.
func (r *repository) push(ctx context.Context, s state, commit string) error {
	was, ref := "", "refs/heads/"+r.branch
	if s.tip != nil {
		was = s.tip.id
	}
	out, err := r.reach(ctx, "push", "--porcelain", "--no-verify", "--recurse-submodules=no", "--force-with-lease="+ref+":"+was, "origin", commit+":"+ref)
	if err == nil {
		return nil
	}
	// "!\t<from>:<to>\t[rejected] (stale info)"; by a server that saw the other first, "[remote
	// rejected] (cannot lock ref ...)" or "(failed to update ref)".
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] != "!" || len(f) < 3 {
			continue
		}
		if regexp.MustCompile(`stale info|fetch first|cannot lock ref|failed to update ref|reference already exists|remote ref does not exist`).MatchString(f[2]) {
			return errMoved
		}
		var g *gitError
		if errors.As(err, &g) {
			return fmt.Errorf("branch %s: %s: %w", r.branch, r.redact(f[2]), err)
		}
	}
	return err
}
