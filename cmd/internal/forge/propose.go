package forge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fail"
)

// A Change is what the files of a work tree want to have in the repository.
type Change struct {
	Dir    string   // the work tree, or a directory in it
	Paths  []string // files below Dir that a run may have written, made or removed; nothing else is committed
	Branch string   // the branch that is kept, "" for DefaultBranch
	Base   string   // branch to merge into; "" is the one that is checked out, or else the forge's
	Title  string   // of the commit and of the pull request
	Body   string   // the pull request's text, in Markdown; its first paragraphs are the commit's
}

// DefaultBranch is the branch of a Change that names none.
const DefaultBranch = "backfeed/refresh"

// An Action is what Propose did.
type Action string

const (
	Nothing   Action = "nothing"   // nothing to change, and no pull request was open
	Unchanged Action = "unchanged" // the open pull request says so already
	Opened    Action = "opened"
	Updated   Action = "updated"  // its commit, its text or both
	Closed    Action = "closed"   // nothing is left to change: closed, and its branch deleted
	Declined  Action = "declined" // a human closed one that said the same: it stays closed
)

// An Outcome is what Propose did, and where that can be seen.
type Outcome struct {
	Action Action   `json:"action"`
	Number int      `json:"number,omitempty"` // of the pull request
	URL    string   `json:"url,omitempty"`    // of the pull request
	Branch string   `json:"branch"`
	Base   string   `json:"base"`
	Commit string   `json:"commit,omitempty"` // the tip of the branch
	Pushed bool     `json:"pushed"`           // this run moved the branch
	Files  []string `json:"files,omitempty"`  // what differs from Base, from the top of the work tree
}

// String says in a sentence what was done.
func (o Outcome) String() string {
	request := fmt.Sprintf("pull request %d (%s)", o.Number, o.URL)
	switch o.Action {
	case Opened:
		return fmt.Sprintf("opened %s: %s changes %s", request, o.Branch, strings.Join(o.Files, ", "))
	case Updated:
		return fmt.Sprintf("updated %s: %s changes %s", request, o.Branch, strings.Join(o.Files, ", "))
	case Unchanged:
		return request + " says so already"
	case Closed:
		if o.Number == 0 {
			return fmt.Sprintf("deleted branch %s: nothing is left to change in %s", o.Branch, o.Base)
		}
		return fmt.Sprintf("closed %s: nothing is left to change in %s", request, o.Base)
	case Declined:
		return fmt.Sprintf("left %s closed: somebody closed it, and the files are the same", request)
	}
	return fmt.Sprintf("nothing to change in %s, and no pull request is open", o.Base)
}

// ErrBehind is wrapped where the files differ between the checkout and the branch to merge
// into: what a run decided against the one may be wrong against the other.
var ErrBehind = errors.New("bring the checkout up to date and run again")

// errMoved says that the branch moved between a look at it and a push.
var errMoved = errors.New("the branch moved meanwhile")

// Propose makes the branch and its pull request say what the files of the work tree say
// now. It opens, updates or closes the pull request, or leaves all as it is, and reports
// which. A run that was killed at any point is completed by the next; of two at once, the
// one whose push comes second looks again and goes on from what it then sees.
func Propose(ctx context.Context, c Change, api API) (Outcome, error) {
	r, err := open(ctx, c, api)
	if err != nil {
		return Outcome{}, err
	}
	defer r.close()
	files, err := r.files(ctx)
	if err != nil {
		return Outcome{}, err
	}
	for range 2 {
		var out Outcome
		if out, err = r.propose(ctx, files); !errors.Is(err, errMoved) {
			return out, err
		}
	}
	return Outcome{}, fmt.Errorf("branch %s moved twice while this run was about to push: another run was faster, and its pull request stands", r.branch)
}

// Pending returns the files that the branch proposes and base does not have, by their paths
// below c.Dir: nil for one that it removes. Where the branch is gone, and a human closed its
// last pull request, they are what that proposed. There are none if the commit is not one of
// Propose. A run that compares with these as well as with the work tree need not push, or open
// again what was declined, because a count differs.
func Pending(ctx context.Context, c Change, api API) (map[string][]byte, error) {
	r, err := open(ctx, c, api)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s, err := r.look(ctx)
	if err == nil && s.tip == nil {
		s.tip, err = r.declinedTip(ctx)
	}
	if err != nil || s.tip == nil || s.tip.foreign() != "" {
		return nil, err
	}
	changes, err := r.changes(ctx, s.tip.parent, s.tip.id)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, ch := range changes {
		name, err := filepath.Rel(filepath.FromSlash("/"+r.prefix), filepath.FromSlash("/"+ch.path))
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		files[name] = nil
		if ch.blob != "" {
			if files[name], err = r.own(ctx, "cat-file", "blob", ch.blob); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// propose is one try. It returns errMoved where another run pushed first.
func (r *repository) propose(ctx context.Context, files []file) (Outcome, error) {
	out := Outcome{Action: Nothing, Branch: r.branch, Base: r.base}
	s, err := r.look(ctx)
	if err != nil {
		return out, err
	}
	if err := r.behind(ctx, s, files); err != nil {
		return out, err
	}
	tree, err := r.tree(ctx, s, files)
	if err != nil {
		return out, err
	}
	changes, err := r.changes(ctx, s.base, tree)
	if err != nil {
		return out, err
	}
	for _, ch := range changes {
		out.Files = append(out.Files, ch.path)
	}
	requests, err := r.api.Requests(ctx, r.branch)
	if err != nil {
		return out, err
	}
	open := find(requests, func(q Request) bool { return q.State == Open })
	if len(changes) == 0 {
		return r.withdraw(ctx, s, open, out)
	}
	digest := changes.digest()
	if open == nil {
		if no := declined(requests, digest); no != nil {
			out.Action, out.Number, out.URL = Declined, no.Number, no.URL
			return out, nil
		}
	}

	if s.tip != nil {
		if whose := s.tip.foreign(); whose != "" {
			return out, r.foreign(whose)
		}
		was, err := r.changes(ctx, s.tip.parent, s.tip.id)
		if err != nil {
			return out, err
		}
		// A base that moved elsewhere is no reason to push: the commit still applies.
		if was.equal(changes) {
			out.Commit = s.tip.id
		}
	}
	if out.Commit == "" {
		if out.Commit, err = r.commit(ctx, tree, s.base); err != nil {
			return out, err
		}
		if err := r.push(ctx, s, out.Commit); err != nil {
			return out, err
		}
		out.Pushed = true
	}
	// From here on the branch says what the files say; a run that dies here leaves a branch
	// without a pull request, for which the next one opens it.
	return r.request(ctx, open, digest, out)
}

// request opens the pull request, or makes the open one say what it should.
func (r *repository) request(ctx context.Context, open *Request, digest string, out Outcome) (Outcome, error) {
	want := Request{Branch: r.branch, Base: r.base, Title: cutTitle(r.title), Body: mark(r.body, digest)}
	if open == nil {
		got, err := r.api.Create(ctx, want)
		if err == nil {
			out.Action, out.Number, out.URL = Opened, got.Number, got.URL
			return out, nil
		}
		if !errors.Is(err, errExists) {
			return out, fmt.Errorf("branch %s is pushed, and its pull request could not be opened: %w", r.branch, err)
		}
		requests, err := r.api.Requests(ctx, r.branch)
		if err != nil {
			return out, err
		}
		if open = find(requests, func(q Request) bool { return q.State == Open }); open == nil {
			return out, fmt.Errorf("branch %s: the forge says that a pull request is open, and lists none", r.branch)
		}
	}
	out.Number, out.URL, out.Action = open.Number, open.URL, Unchanged
	// A text that is about the same files stays: what else a run has to say of them, as how many samples it saw, is no news.
	if marked(open.Body) == digest && open.Base == want.Base {
		if out.Pushed {
			out.Action = Updated
		}
		return out, nil
	}
	want.Number = open.Number
	if err := r.api.Update(ctx, want); err != nil {
		return out, fmt.Errorf("pull request %d: %w", open.Number, err)
	}
	out.Action = Updated
	return out, nil
}

// withdraw closes the pull request and deletes the branch: nothing is left to change.
func (r *repository) withdraw(ctx context.Context, s state, open *Request, out Outcome) (Outcome, error) {
	whose := ""
	if s.tip != nil {
		whose = s.tip.foreign()
	}
	if open != nil {
		if whose != "" {
			return out, r.foreign(whose)
		}
		out.Number, out.URL, out.Action = open.Number, open.URL, Closed
		closed := *open
		closed.State, closed.Body = Shut, fmt.Sprintf("Nothing is left to change in `%s`: closed by the run that found this.\n\n%s", r.base, unmark(open.Body))
		closed.Body = cut(closed.Body, maxBody)
		if err := r.api.Update(ctx, closed); err != nil {
			return out, fmt.Errorf("pull request %d: %w", open.Number, err)
		}
	}
	if s.tip != nil && whose == "" {
		if err := r.push(ctx, s, ""); err != nil {
			return out, err
		}
		out.Action, out.Pushed = Closed, true
	}
	return out, nil
}

// foreign is the error for a branch whose tip is not ours.
func (r *repository) foreign(whose string) error {
	return fmt.Errorf("branch %s ends in %s: it stays as it is; merge it, delete it, or have another branch kept", r.branch, whose)
}

// declined returns the pull request that a human closed and that said what is to be said
// now, of those after the last one that was merged.
func declined(requests []Request, digest string) *Request {
	for i, q := range requests {
		if q.State == Merged {
			return nil
		}
		if q.State == Shut && marked(q.Body) == digest {
			return &requests[i]
		}
	}
	return nil
}

// declinedTip returns the commit that the forge kept of the newest pull request, if a human
// closed it: nil otherwise.
func (r *repository) declinedTip(ctx context.Context) (*commit, error) {
	requests, err := r.api.Requests(ctx, r.branch)
	if err != nil || len(requests) == 0 || requests[0].State != Shut || marked(requests[0].Body) == "" {
		return nil, err
	}
	if err := r.fetch(ctx, "+"+r.api.Ref(requests[0].Number)+":"+tipRef); err != nil {
		if gone(err) {
			return nil, nil // not kept for ever
		}
		return nil, err
	}
	return r.readCommit(ctx, tipRef)
}

func find(requests []Request, ok func(Request) bool) *Request {
	for i := range requests {
		if ok(requests[i]) {
			return &requests[i]
		}
	}
	return nil
}

// check refuses a Change that makes no sense.
func (c *Change) check() error {
	switch {
	case len(c.Paths) == 0:
		return fail.Errorf(fail.Usage, "nothing to propose: no files are named")
	case strings.TrimSpace(c.Title) == "":
		return fail.Errorf(fail.Usage, "a pull request needs a title")
	case c.Branch == c.Base:
		return fail.Errorf(fail.Usage, "branch %s cannot be merged into itself", c.Branch)
	}
	for _, p := range c.Paths {
		if !filepath.IsLocal(p) {
			return fail.Errorf(fail.Usage, "%s: not below %s", p, c.Dir)
		}
	}
	return nil
}
