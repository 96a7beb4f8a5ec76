// Package agent samples a machine all the time into a store, keeps what that costs below a
// share of the processors, and tells Prometheus of itself. It refuses to hold more than so
// many places in memory, to copy what is too large or out of reach, and to show its figures
// to other machines unless that is asked for. Package store takes over what it wrote.
package agent
