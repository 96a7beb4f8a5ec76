// Package doctor finds out what this machine can do for backfeed: which ways to sample and
// to probe work for this user, what the kernel permits, and which tools are installed, each
// with how to get it if it is missing. It refuses to change anything of the machine, and to
// guess: what can be tried is tried. Package report prints what it found, as a Checkup.
package doctor
