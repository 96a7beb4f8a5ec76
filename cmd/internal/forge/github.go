package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitHub is GitHub's API, https://docs.github.com/en/rest/pulls/pulls, which Gitea and Forgejo
// have too but for the filter of a list by its branch.
type gitHub struct {
	client
	repository string // owner/name
	branch     string // that the job runs for, or ""
	server     string
}

// A pull is one pull request in the API.
type pull struct {
	Number   int     `json:"number"`
	URL      string  `json:"html_url"`
	State    string  `json:"state"` // open, closed
	Title    string  `json:"title"`
	Body     string  `json:"body"` // null is ""
	MergedAt *string `json:"merged_at"`
	Head     struct {
		Ref  string `json:"ref"`
		Repo *struct {
			Name string `json:"full_name"`
		} `json:"repo"` // null if the fork is gone
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
}

func (p *pull) request() Request {
	q := Request{Number: p.Number, URL: p.URL, Branch: p.Head.Ref, Base: p.Base.Ref, Title: p.Title, Body: p.Body}
	switch {
	case p.MergedAt != nil:
		q.State = Merged
	case p.State != "open":
		q.State = Shut
	}
	return q
}

// Pages of a list: GitHub has few requests of one branch on the first; others list all.
const (
	perPage  = 30
	maxPages = 20
)

func (g *gitHub) Requests(ctx context.Context, branch string) ([]Request, error) {
	owner, _, _ := strings.Cut(g.repository, "/")
	var all []Request
	for page := 1; page <= maxPages; page++ {
		var pulls []pull
		err := g.call(ctx, "GET", "/repos/"+g.repository+"/pulls", url.Values{
			"state": {"all"}, "head": {owner + ":" + branch}, "sort": {"created"}, "direction": {"desc"},
			"page": {fmt.Sprint(page)}, "per_page": {fmt.Sprint(perPage)}, "limit": {fmt.Sprint(perPage)},
		}, nil, &pulls)
		if err != nil {
			return nil, err
		}
		for _, p := range pulls {
			if p.Head.Ref == branch && p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.Name, g.repository) {
				all = append(all, p.request())
			}
		}
		if len(pulls) < perPage {
			break
		}
	}
	return all, nil
}

func (g *gitHub) Create(ctx context.Context, q Request) (Request, error) {
	var p pull
	err := g.call(ctx, "POST", "/repos/"+g.repository+"/pulls", nil,
		map[string]string{"head": q.Branch, "base": q.Base, "title": q.Title, "body": q.Body}, &p)
	var s *statusError
	if errors.As(err, &s) {
		switch {
		case s.code == http.StatusConflict || s.code == http.StatusUnprocessableEntity && strings.Contains(s.said, "already exists"):
			err = fmt.Errorf("%w: %w", errExists, err)
		case s.code == http.StatusForbidden && strings.Contains(s.said, "not permitted to create"):
			err = fmt.Errorf("%w: allow it in the repository's settings, below Actions, General, or set another token", err)
		}
	}
	return p.request(), err
}

func (g *gitHub) Update(ctx context.Context, q Request) error {
	in := map[string]string{"title": q.Title, "body": q.Body, "base": q.Base}
	if q.State != Open {
		in["state"] = "closed"
		delete(in, "base") // which may be gone
	}
	return g.call(ctx, "PATCH", fmt.Sprintf("/repos/%s/pulls/%d", g.repository, q.Number), nil, in, nil)
}

func (g *gitHub) Ref(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

func (g *gitHub) Base(ctx context.Context) (string, error) {
	if g.branch != "" {
		return g.branch, nil
	}
	var repo struct {
		Default string `json:"default_branch"`
	}
	err := g.call(ctx, "GET", "/repos/"+g.repository, nil, nil, &repo)
	if err == nil && repo.Default == "" {
		err = fmt.Errorf("%s has no default branch", g.repository)
	}
	return repo.Default, err
}

func (g *gitHub) Remote() Credential { return Credential{g.server, "x-access-token", g.token} }
