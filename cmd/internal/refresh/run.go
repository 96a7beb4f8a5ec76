package refresh

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
)

// Options say how to run.
type Options struct {
	Targets []string // names of those to refresh; nil is all
	DryRun  bool     // write nothing
	Tool    string   // version of this program, for the lock
	Now     time.Time
	Notify  report.Notify

	// Pending are files that were proposed in place of those that are here, by their paths below the configuration's directory; those that the
	// build would decide by as by the new ones are made again. nil is none.
	Pending map[string][]byte
}

// Schema names the form of a report: refresh.schema.json of cmd/backfeed.
const Schema = "backfeed.refresh/1"

// Run refreshes targets, one after the other, and says what became of each. Its error is of those that failed; the
// report is there with it too. Equal sources and files give equal files and an equal report.
func Run(ctx context.Context, c *Config, opt Options) (*report.Refresh, error) {
	doc := &report.Refresh{Schema: Schema, DryRun: opt.DryRun, Targets: []report.RefreshTarget{}}
	for _, name := range opt.Targets {
		if !slices.ContainsFunc(c.Targets, func(t *Target) bool { return t.Name == name }) {
			return nil, fail.Errorf(fail.Usage, "no target %q in the configuration", name)
		}
	}
	if !opt.DryRun {
		alone, err := output.Alone(ctx, c.Dir)
		if err != nil {
			return nil, err
		}
		defer alone()
	}
	lockPath := filepath.Join(c.Dir, c.Lock)
	lock, err := ReadLock(lockPath)
	if err != nil {
		return nil, err
	}
	here := &version{lock: lock}
	var pending *version
	if text, ok := opt.Pending[c.Lock]; ok {
		if proposed, err := ParseLock(text); err == nil { // what is no lock was not proposed by refresh
			pending = &version{proposed, opt.Pending}
		}
	}
	touched := map[string]bool{c.Lock: true}
	var failures []error
	for _, t := range c.Targets {
		if len(opt.Targets) > 0 && !slices.Contains(opt.Targets, t.Name) {
			continue
		}
		r := &run{Target: t, config: c, opt: opt, here: here, pending: pending, notify: prefixed{opt.Notify, t.Name + ": "}}
		err := r.refresh(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch r.doc.Name = t.Name; {
		case err != nil:
			r.doc.State, r.doc.Reason = report.RefreshFailed, fail.Text(err)
			r.doc.Outputs = nil
			failures = append(failures, fmt.Errorf("%s: %w", t.Name, err))
			doc.Failed++
		case slices.ContainsFunc(r.doc.Outputs, func(o report.RefreshOutput) bool { return o.State != report.RefreshUnchanged }):
			r.doc.State = report.RefreshChanged
			doc.Changed++
		default:
			r.doc.State = report.RefreshUnchanged
		}
		doc.Targets = append(doc.Targets, r.doc)
		for _, path := range r.touched {
			touched[r.rel(path)] = true
		}
	}
	doc.Files = slices.Sorted(maps.Keys(touched))
	if !opt.DryRun && doc.Failed == 0 && len(opt.Targets) == 0 {
		if err := lock.forget(c, lockPath); err != nil {
			failures = append(failures, err)
		}
	}
	return doc, fail.Join(failures)
}

// forget drops from the lock's file what the configuration does not have any more.
func (l *Lock) forget(c *Config, path string) error {
	before := len(l.Outputs)
	if l.keep(c); len(l.Outputs) == before {
		return nil
	}
	return output.WriteFile(path, nil, l.Encode())
}

// prefixed says whose a notice is.
type prefixed struct {
	report.Notify
	prefix string
}

func (p prefixed) Warn(format string, args ...any) {
	p.Notify.Warn("%s", p.prefix+report.Sprintf(report.Style{}, format, args...))
}
