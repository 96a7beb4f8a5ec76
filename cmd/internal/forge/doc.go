// Package forge keeps one branch and one pull request of a repository up to date with what
// files of a work tree say: Propose opens the pull request, updates it, and closes it when
// nothing is left to change. GitHub, GitLab and what speaks as GitHub does (Gitea, Forgejo)
// are an API each; git is the program of that name.
//
// Git works in a repository of its own below the temporary directory, that only borrows
// the remote's address and the settings by which files become blobs. So the user's index,
// branches, objects and other files stay as they are, and a shallow clone or a detached
// HEAD is as good as any. No hook runs.
//
// A commit on the branch is replaced or removed only if it is one that Propose made: its
// committer and a digest in its last line show that (commit.go). Others' commits stop it.
// What a human closed stays closed until the files say something else.
//
// Tokens reach git by its environment and the forge by a header; errors and the messages of
// git and of the forge are rid of them. Which files change and why is the caller's.
package forge
