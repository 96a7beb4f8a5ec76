package forge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
)

// An API is what Propose needs of a forge.
type API interface {
	// Requests returns the pull requests that were ever made of a branch of the repository
	// itself, not of a fork's, newest first. Of very many it may return the newest alone.
	Requests(ctx context.Context, branch string) ([]Request, error)
	// Create opens one. It returns an error that wraps errExists if one is open.
	Create(ctx context.Context, q Request) (Request, error)
	// Update sets title, text, base and state of the one with q's number.
	Update(ctx context.Context, q Request) error
	// Ref returns the ref under which the forge keeps the commits of a pull request whose branch is gone.
	Ref(number int) string
	// Base returns the branch that the job runs for, or else the repository's default.
	Base(ctx context.Context) (string, error)
	// Remote returns what git may show to the forge's own host.
	Remote() Credential
}

// A Request is a pull request, which GitLab calls a merge request.
type Request struct {
	Number      int
	URL         string
	State       State
	Branch      string
	Base        string
	Title, Body string
}

// A State is whether a pull request can still be merged.
type State uint8

const (
	Open   State = iota
	Shut         // closed and not merged
	Merged       // into its base
)

// A Credential is a user and token for git at a server.
type Credential struct {
	Server string // scheme and host
	User   string
	Token  string
}

// errExists says that a pull request of the branch is open already.
var errExists = errors.New("a pull request exists already")

// Kinds are the forges that FromEnv knows.
var Kinds = []string{"github", "gitlab"}

// FromEnv returns the API of a kind of forge, as the variables of its CI say.
func FromEnv(kind string, getenv func(string) string) (API, error) {
	var missing []string
	first := func(names ...string) string {
		for _, name := range names {
			if v := getenv(name); v != "" {
				return v
			}
		}
		missing = append(missing, strings.Join(names, " or "))
		return ""
	}
	var api API
	switch kind {
	case "github":
		g := &gitHub{
			repository: first("GITHUB_REPOSITORY"),
			branch:     strings.TrimPrefix(getenv("GITHUB_REF"), "refs/heads/"),
			server:     getenv("GITHUB_SERVER_URL"),
		}
		if g.branch == getenv("GITHUB_REF") { // a tag, or a pull request
			g.branch = ""
		}
		g.client = newClient(cmp.Or(getenv("GITHUB_API_URL"), "https://api.github.com"), first("BACKFEED_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"))
		if owner, name, ok := strings.Cut(g.repository, "/"); g.repository != "" && (!ok || owner == "" || name == "" || strings.ContainsAny(g.repository, " ?#%")) {
			return nil, fail.Errorf(fail.Usage, "GITHUB_REPOSITORY: %q is not owner/name", g.repository)
		}
		if g.server == "" {
			g.server = g.client.root
			if g.server == "https://api.github.com" {
				g.server = "https://github.com"
			}
		}
		api = g
	case "gitlab":
		g := &gitLab{
			project: first("CI_PROJECT_ID"),
			branch:  getenv("CI_COMMIT_BRANCH"),
			server:  getenv("CI_SERVER_URL"),
		}
		g.client = newClient(first("CI_API_V4_URL"), first("BACKFEED_TOKEN", "GITLAB_TOKEN"))
		g.server = cmp.Or(g.server, g.client.root)
		api = g
	default:
		return nil, fail.Errorf(fail.Usage, "%q is no forge; there are %s", kind, strings.Join(Kinds, ", "))
	}
	if len(missing) > 0 {
		return nil, fail.Errorf(fail.Usage, "%s: not set: %s", kind, strings.Join(missing, "; "))
	}
	return api, nil
}

// Limits of asking again: a forge that is down for longer is next run's matter.
const (
	tries   = 4
	maxWait = time.Minute // that a forge may ask for between two tries
	maxRead = 16 << 20    // bytes of an answer: 30 texts of 64 KiB, escaped, are 12 MiB at worst
)

// backoff is how long to wait after a failure, the first being 0.
func backoff(try int) time.Duration { return time.Second << (2 * try) }

// sleep waits, or returns why the context ended. Tests do not wait.
var sleep = func(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A client speaks JSON to one API.
type client struct {
	root  string // no slash at the end
	token string
	http  *http.Client
}

func newClient(root, token string) client {
	return client{strings.TrimSuffix(root, "/"), token, &http.Client{
		Timeout: 30 * time.Second,
		// A token is for one host; what an API moved is told by its own documents.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme || len(via) > 5 {
				return fmt.Errorf("redirected to %s://%s", req.URL.Scheme, req.URL.Host)
			}
			return nil
		},
	}}
}

// A statusError is an answer that says no.
type statusError struct {
	method, path string
	code         int
	said         string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s%s", e.method, e.path, e.code, http.StatusText(e.code), e.said)
}

// call sends in as JSON, if not nil, and reads the answer into out, if not nil. It asks again
// where the failure may pass: creating a pull request twice is refused by every forge.
func (c *client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	where := c.root + path
	if len(query) > 0 {
		where += "?" + query.Encode()
	}
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		wait, err := c.once(ctx, method, path, where, body, out)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || wait < 0 || try == tries-1 {
			return err
		}
		if wait > maxWait {
			return fmt.Errorf("%w; it asks to wait %s", err, wait.Round(time.Second))
		}
		if err := sleep(ctx, max(wait, backoff(try))); err != nil {
			return err
		}
	}
}

// once is one try. It returns how long to wait before another makes sense, negative if none
// does.
func (c *client) once(ctx context.Context, method, path, where string, body []byte, out any) (time.Duration, error) {
	const no = time.Duration(-1)
	req, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(body))
	if err != nil {
		return no, errors.New(hide(err.Error(), []string{c.token}))
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "backfeed")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its text has the query
		}
		return 0, fmt.Errorf("%s %s%s: %w", method, c.root, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRead+1))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 == 2 {
		if len(text) > maxRead {
			return no, fmt.Errorf("%s %s: an answer of more than %d bytes", method, path, maxRead)
		}
		if out == nil {
			return no, nil
		}
		if err := json.Unmarshal(text, out); err != nil {
			return no, fmt.Errorf("%s %s: the answer is not the JSON of this API: %w", method, path, err)
		}
		return no, nil
	}
	e := &statusError{method, path, resp.StatusCode, c.said(text)}
	limited := resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode == http.StatusForbidden && (resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0" || strings.Contains(strings.ToLower(e.said), "rate limit"))
	if !limited && resp.StatusCode < 500 {
		return no, e
	}
	return asked(resp.Header, time.Now()), e
}

// asked is how long an answer asks to wait, 0 if it does not.
func asked(h http.Header, now time.Time) time.Duration {
	after := h.Get("Retry-After")
	if s, err := strconv.Atoi(after); err == nil {
		return time.Duration(max(s, 0)) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(at.Sub(now), 0)
	}
	for _, name := range []string{"X-Ratelimit-Reset", "Ratelimit-Reset"} { // GitHub, GitLab
		if s, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && h.Get(strings.Replace(name, "Reset", "Remaining", 1)) == "0" {
			return max(time.Unix(s, 0).Sub(now), 0)
		}
	}
	return 0
}

// said is what an answer gives as the reason, with what errors list.
func (c *client) said(text []byte) string {
	var m struct {
		Message any
		Error   any
		Errors  any
	}
	if json.Unmarshal(text, &m) != nil {
		return ""
	}
	var all []string
	for _, v := range []any{m.Message, m.Error, m.Errors} {
		switch v := v.(type) {
		case nil:
		case string:
			all = append(all, v)
		default:
			if b, err := json.Marshal(v); err == nil {
				all = append(all, string(b))
			}
		}
	}
	s := oneLine(hide(strings.Join(all, ": "), []string{c.token}))
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	if s == "" {
		return ""
	}
	return ": " + s
}
