// Package demo does the whole job on a sample program: builds it, records it, infers what ran,
// writes its profile, builds it again and measures what that brought, beside the truth of a
// build that counts. It refuses to call a difference one that may be noise, and fails if the
// compiler decides nothing differently. What it does once, the user does with the commands
// record, emit and pgo.
package demo
