package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"backfeed/internal/testtool"
)

// TestTrouble: failures that pass are waited for; others, and those that last, are said.
func TestTrouble(t *testing.T) {
	testtool.Need(t, "git")
	for _, tt := range []struct {
		name  string
		times int
		code  int
		head  map[string]string
		body  string
		want  string // of the error; "" is none
	}{
		{"three server errors", 3, 500, nil, `<html>`, ""},
		{"a server that is down", 99, 503, nil, ``, "503 Service Unavailable"},
		{"too many requests", 1, 429, map[string]string{"Retry-After": "7"}, `{"message":"slow down"}`, ""},
		{"GitHub's limit, soon over", 1, 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": fmt.Sprint(time.Now().Unix() + 20)}, `{"message":"API rate limit exceeded"}`, ""},
		{"GitHub's second limit", 2, 403, nil, `{"message":"You have exceeded a secondary rate limit"}`, ""},
		{"a limit for an hour", 1, 429, map[string]string{"Retry-After": "3600"}, `{}`, "asks to wait 1h0m0s"},
		{"no permission", 1, 403, nil, `{"message":"Resource not accessible by integration"}`, "403 Forbidden: Resource not accessible by integration"},
		{"a token in the answer", 1, 401, nil, `{"message":"bad credentials ` + token + `\u001b[2J"}`, "401 Unauthorized: bad credentials ***"},
		{"another API", 1, 200, nil, `{"login":`, "not the JSON of this API"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "github")
			for _, method := range []string{"GET", "POST"} {
				left := tt.times
				w.trouble = func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method != method || left == 0 {
						return false
					}
					left--
					for k, v := range tt.head {
						rw.Header().Set(k, v)
					}
					rw.WriteHeader(tt.code)
					fmt.Fprint(rw, tt.body)
					return true
				}
				write(t, w.work, "cmd/api/default.pgo", method)
				out, err := w.propose()
				if tt.want == "" && (err != nil || left != 0) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("%s: %+v, %v, %d failures left; want %q", method, out, err, left, tt.want)
				}
				if err != nil && (strings.Contains(err.Error(), token) || strings.ContainsRune(err.Error(), 27)) {
					t.Errorf("%v", err)
				}
				if tt.times == 99 && left != 99-tries {
					t.Errorf("%d tries", 99-left)
				}
				w.requests = nil
			}
		})
	}
}

// TestRedirect: a token does not follow to another host.
func TestRedirect(t *testing.T) {
	fast(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked with %q", r.Header)
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	c := newClient(s.URL, token)
	err := c.call(context.Background(), "POST", "/x", nil, map[string]string{}, nil)
	if err == nil || !strings.Contains(err.Error(), "redirected to") {
		t.Error(err)
	}
}

// TestForks: a fork's branch of the same name is not ours.
func TestForks(t *testing.T) {
	fast(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/repos") {
			fmt.Fprint(w, `[{"number":3,"state":"open","head":{"ref":"b","repo":{"full_name":"evil/shop"}}},{"number":2,"state":"open","head":{"ref":"b","repo":null}},
				{"number":1,"state":"closed","body":null,"head":{"ref":"b","repo":{"full_name":"acme/shop"}}}]`)
		} else {
			fmt.Fprint(w, `[{"iid":3,"state":"opened","source_branch":"b","source_project_id":9,"target_project_id":1},{"iid":1,"state":"closed","source_branch":"b","source_project_id":1,"target_project_id":1}]`)
		}
	}))
	defer s.Close()
	for _, api := range []API{&gitHub{client: newClient(s.URL, token), repository: "acme/shop"}, &gitLab{client: newClient(s.URL, token), project: "acme/shop"}} {
		all, err := api.Requests(context.Background(), "b")
		if err != nil || len(all) != 1 || all[0].Number != 1 || all[0].State != Shut {
			t.Errorf("%T: %+v, %v", api, all, err)
		}
	}
}

func TestFromEnv(t *testing.T) {
	for _, tt := range []struct {
		kind, env string
		want      string // of the error
	}{
		{"github", "GITHUB_REPOSITORY=a/b GITHUB_TOKEN=x", ""},
		{"github", "GITHUB_REPOSITORY=a/b BACKFEED_TOKEN=x", ""},
		{"github", "GITHUB_REPOSITORY=a/b", "not set: BACKFEED_TOKEN or GITHUB_TOKEN or GH_TOKEN"},
		{"github", "GITHUB_REPOSITORY=a?b/c GITHUB_TOKEN=x", "is not owner/name"},
		{"gitlab", "CI_API_V4_URL=https://g/api/v4 CI_PROJECT_ID=7 GITLAB_TOKEN=x", ""},
		{"gitlab", "CI_PROJECT_ID=7", "not set: CI_API_V4_URL; BACKFEED_TOKEN or GITLAB_TOKEN"},
		{"svn", "", `"svn" is no forge; there are github, gitlab`},
	} {
		env := map[string]string{}
		for kv := range strings.FieldsSeq(tt.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		api, err := FromEnv(tt.kind, func(k string) string { return env[k] })
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v", tt.kind, tt.env, err)
		}
		if tt.want == "" && (api.Remote().Token != "x" || !strings.HasPrefix(api.Remote().Server, "https://g")) {
			t.Errorf("%+v", api.Remote())
		}
	}
	// The branch of a job: of a tag or a pull request it is the repository's default.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"default_branch":"trunk"}`) }))
	defer s.Close()
	for ref, want := range map[string]string{"refs/heads/a/b": "a/b", "refs/pull/3/merge": "trunk", "": "trunk"} {
		env := map[string]string{"GITHUB_API_URL": s.URL, "GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "x", "GITHUB_REF": ref}
		api, err := FromEnv("github", func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		if got, err := api.Base(context.Background()); got != want || err != nil {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
}

func TestAsked(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		key, value string
		left       string
		want       time.Duration
	}{
		{"Retry-After", "7", "", 7 * time.Second},
		{"Retry-After", "-1", "", 0},
		{"Retry-After", now.Add(time.Minute).UTC().Format(http.TimeFormat), "", time.Minute},
		{"X-RateLimit-Reset", "1800000030", "0", 30 * time.Second},
		{"RateLimit-Reset", "1800000030", "0", 30 * time.Second},
		{"X-RateLimit-Reset", "1800000030", "17", 0},
		{"X-RateLimit-Reset", "1799999999", "0", 0},
		{"Date", "x", "", 0},
	} {
		h := http.Header{}
		h.Set(tt.key, tt.value)
		if tt.left != "" {
			h.Set(strings.Replace(tt.key, "Reset", "Remaining", 1), tt.left)
		}
		if got := asked(h, now); got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.key, tt.value, got, tt.want)
		}
	}
}

// TestCut: a text of any length fits, is valid, closes what it opened, and keeps its mark.
func TestCut(t *testing.T) {
	digest := strings.Repeat("0f", 32)
	for name, body := range map[string]string{
		"short":      "a\n",
		"empty":      "",
		"long lines": strings.Repeat("Ünïcödé ", 20_000),
		"code":       "<details><summary>x</summary>\n\n```go\n" + strings.Repeat("line `x`\n", 20_000) + "```\n</details>\n",
		"tildes":     "~~~~\n" + strings.Repeat("```\n", 30_000),
		"marked":     mark("a\n", strings.Repeat("1e", 32)),
		"exactly":    strings.Repeat("x", maxBody),
	} {
		got := mark(body, digest)
		if len(got) > maxBody || !utf8.ValidString(got) || marked(got) != digest || strings.Count(got, "<!--") != 1 {
			t.Errorf("%s: %d bytes, marked %q, ends in %q", name, len(got), marked(got), got[max(0, len(got)-300):])
		}
		if openFence(got) != "" || strings.Count(got, "<details") != strings.Count(got, "</details>") {
			t.Errorf("%s: leaves something open: %q", name, got[len(got)-300:])
		}
		if strings.Contains(got, "The rest is left out") != (len(body) > maxBody-90) {
			t.Errorf("%s: says that it was cut: %v", name, strings.Contains(got, "left out"))
		}
		if again := mark(got, digest); again != got {
			t.Errorf("%s: not the same twice", name)
		}
	}
	if got := cutTitle(oneLine("a\r\nb\tc " + strings.Repeat("é", 300))); utf8.RuneCountInString(got) != maxTitle || !strings.HasPrefix(got, "a b c é") {
		t.Errorf("%q", got)
	}
}

func TestLead(t *testing.T) {
	for body, want := range map[string]string{
		"One.\nStill one.\n\nTwo.\n\n## More\n\nThree.": "One.\nStill one.\n\nTwo.",
		"# Refresh\n\nOne.\n\n- a\n- b":                 "One.",
		"`default.pgo` grew.\r\n\r\n| a |\r\n| - |":     "`default.pgo` grew.",
		"**api**: one\n\n```\ncode\n```":                "**api**: one",
		"| a |":                                         "",
		"A table:\n| a |\n| - |":                        "",
		"Backfeed-Refresh: 00":                          "",
		"":                                              "",
	} {
		if got := lead(body); got != want {
			t.Errorf("lead(%q) = %q, want %q", body, got, want)
		}
	}
}

// TestQuick: GitLab takes no line of a text for an action, and code stays as it is.
func TestQuick(t *testing.T) {
	body := "/merge\n a\n  /close\n```\n/usr/bin/x\n```\nx /y\n"
	want := "\\/merge\n a\n  \\/close\n```\n/usr/bin/x\n```\nx /y\n"
	if got := quick(body); got != want || unquick(got) != body {
		t.Errorf("%q, back %q", got, unquick(got))
	}
}
