package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitLab is version 4 of GitLab's API, https://docs.gitlab.com/api/merge_requests/.
type gitLab struct {
	client
	project string // its number, or its path
	branch  string // that the job runs for, or ""
	server  string
}

// A mergeRequest is one in the API.
type mergeRequest struct {
	Number int    `json:"iid"`
	URL    string `json:"web_url"`
	State  string `json:"state"` // opened, locked while it is merged, closed, merged
	Title  string `json:"title"`
	Body   string `json:"description"` // null is ""
	Branch string `json:"source_branch"`
	Base   string `json:"target_branch"`
	From   int    `json:"source_project_id"`
	To     int    `json:"target_project_id"`
}

func (m *mergeRequest) request() Request {
	q := Request{Number: m.Number, URL: m.URL, Branch: m.Branch, Base: m.Base, Title: m.Title, Body: m.Body}
	switch m.State {
	case "merged":
		q.State = Merged
	case "closed":
		q.State = Shut
	}
	return q
}

func (g *gitLab) path(rest string) string { return "/projects/" + url.PathEscape(g.project) + rest }

func (g *gitLab) Requests(ctx context.Context, branch string) ([]Request, error) {
	var all []Request
	for page := 1; page <= maxPages; page++ {
		var some []mergeRequest
		err := g.call(ctx, "GET", g.path("/merge_requests"), url.Values{
			"state": {"all"}, "scope": {"all"}, "source_branch": {branch}, "order_by": {"created_at"}, "sort": {"desc"},
			"page": {fmt.Sprint(page)}, "per_page": {fmt.Sprint(perPage)},
		}, nil, &some)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			if m.Branch == branch && m.From == m.To {
				q := m.request()
				q.Body = unquick(q.Body)
				all = append(all, q)
			}
		}
		if len(some) < perPage {
			break
		}
	}
	return all, nil
}

func (g *gitLab) Create(ctx context.Context, q Request) (Request, error) {
	var m mergeRequest
	err := g.call(ctx, "POST", g.path("/merge_requests"), nil, map[string]any{
		"source_branch": q.Branch, "target_branch": q.Base, "title": q.Title, "description": quick(q.Body), "remove_source_branch": true,
	}, &m)
	var s *statusError
	if errors.As(err, &s) && s.code == http.StatusConflict {
		err = fmt.Errorf("%w: %w", errExists, err)
	}
	return m.request(), err
}

func (g *gitLab) Update(ctx context.Context, q Request) error {
	in := map[string]string{"title": q.Title, "description": quick(q.Body), "target_branch": q.Base}
	if q.State != Open {
		in["state_event"] = "close"
		delete(in, "target_branch") // which may be gone
	}
	return g.call(ctx, "PUT", g.path(fmt.Sprintf("/merge_requests/%d", q.Number)), nil, in, nil)
}

func (g *gitLab) Ref(number int) string { return fmt.Sprintf("refs/merge-requests/%d/head", number) }

func (g *gitLab) Base(ctx context.Context) (string, error) {
	if g.branch != "" {
		return g.branch, nil
	}
	var p struct {
		Default string `json:"default_branch"`
	}
	err := g.call(ctx, "GET", g.path(""), nil, nil, &p)
	if err == nil && p.Default == "" {
		err = fmt.Errorf("project %s has no default branch", g.project)
	}
	return p.Default, err
}

func (g *gitLab) Remote() Credential { return Credential{g.server, "oauth2", g.token} }

// quick keeps GitLab from taking a line that begins with a slash, a path say, for one of its
// quick actions: "/merge" would merge. Within code it takes none.
func quick(body string) string { return slashes(body, "/", `\/`) }

func unquick(body string) string { return slashes(body, `\/`, "/") }

func slashes(body, from, to string) string {
	var out, before strings.Builder
	for line := range strings.Lines(body) {
		rest := strings.TrimLeft(line, " \t")
		before.WriteString(line)
		if strings.HasPrefix(rest, from) && openFence(before.String()) == "" {
			line = line[:len(line)-len(rest)] + to + rest[len(from):]
		}
		out.WriteString(line)
	}
	return out.String()
}
