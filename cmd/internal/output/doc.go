// Package output writes files where users say: whole or not at all, and where their path
// leads now, by way of open directories, so that what somebody puts there meanwhile changes
// nothing. In directories that everybody may write to, like /tmp, it refuses links and files
// of others, as Linux does by fs.protected_symlinks and fs.protected_regular, whatever these
// are set to: root would otherwise write where a user points. What is written is the
// caller's; package report makes it safe to read.
package output
