// Package terminal tells a terminal from other outputs, and keeps the one line of progress on it
// out of the way of what else is said. It refuses to print progress anywhere else. What is said
// is the caller's; package report formats it.
package terminal
