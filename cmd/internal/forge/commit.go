package forge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A commit that Propose made is known by its committer and by the last line of its message,
//
//	Backfeed-Refresh: <SHA-256 of tree, parent and the message before this line>
//
// so that an amended, rebased or merged one is another's, though it keeps the line.
const trailer = "Backfeed-Refresh: "

// A commit is one of the remote's, and what shows whose it is.
type commit struct {
	id        string
	tree      string
	parent    string // the only one, or ""
	author    string // "Name <address>"
	committer string // likewise
	message   string
}

// committer returns who commits: as git's own variables say, or else the program.
func committer() (name, address string) {
	return cmp.Or(os.Getenv("GIT_COMMITTER_NAME"), "backfeed"), cmp.Or(os.Getenv("GIT_COMMITTER_EMAIL"), "backfeed@noreply.invalid")
}

// foreign returns whose commit c is and what it says, "" if Propose made it.
func (c *commit) foreign() string {
	name, address := committer()
	if i := strings.LastIndex(c.message, trailer); i >= 0 && c.parent != "" && c.committer == fmt.Sprintf("%s <%s>", name, address) &&
		strings.TrimSpace(c.message[i+len(trailer):]) == seal(c.tree, c.parent, c.message[:i]) {
		return ""
	}
	subject, _, _ := strings.Cut(c.message, "\n")
	return fmt.Sprintf("commit %.12s of %s, %q", c.id, c.author, subject)
}

func seal(tree, parent, message string) string {
	sum := sha256.Sum256([]byte(tree + "\n" + parent + "\n" + message))
	return hex.EncodeToString(sum[:])
}

// readCommit reads the commit that a ref names.
func (r *repository) readCommit(ctx context.Context, ref string) (*commit, error) {
	id, err := r.own(ctx, "rev-parse", "--verify", ref)
	if err != nil {
		return nil, err
	}
	c := &commit{id: strings.TrimSpace(string(id))}
	text, err := r.own(ctx, "cat-file", "commit", c.id)
	if err != nil {
		return nil, err
	}
	head, message, _ := strings.Cut(string(text), "\n\n")
	c.message = message
	parents := 0
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "tree":
			c.tree = value
		case "parent":
			c.parent = value
			parents++
		case "author":
			c.author = person(value)
		case "committer":
			c.committer = person(value)
		}
	}
	if parents != 1 {
		c.parent = "" // a merge, or the first commit of all
	}
	return c, nil
}

// person takes the time off "Name <address> 1732531200 +0000".
func person(s string) string {
	if i := strings.LastIndex(s, ">"); i >= 0 {
		return s[:i+1]
	}
	return s
}

// commit makes the commit of a tree on a parent. The author is who git says the user is, if
// anybody.
func (r *repository) commit(ctx context.Context, tree, parent string) (string, error) {
	name, address := committer()
	author, authorAddress := os.Getenv("GIT_AUTHOR_NAME"), os.Getenv("GIT_AUTHOR_EMAIL")
	if author == "" || authorAddress == "" {
		author, authorAddress = r.setting(ctx, "user.name"), r.setting(ctx, "user.email")
	}
	if author == "" || authorAddress == "" {
		author, authorAddress = name, address
	}
	message := cutTitle(r.title) + "\n\n"
	if lead := lead(r.body); lead != "" {
		message += lead + "\n\n"
	}
	message += trailer + seal(tree, parent, message) + "\n"
	env := append(slices.Clone(r.env), "GIT_AUTHOR_NAME="+author, "GIT_AUTHOR_EMAIL="+authorAddress, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+address)
	id, err := r.git(ctx, env, []byte(message), "--git-dir", r.tmp, "commit-tree", tree, "-p", parent)
	return strings.TrimSpace(string(id)), err
}

// setting returns one of the user's settings, "" if it is not set.
func (r *repository) setting(ctx context.Context, key string) string {
	v, _ := r.users(ctx, "config", "--get", key)
	return strings.TrimSpace(string(v))
}
