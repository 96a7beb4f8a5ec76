// Package layout works out in which order code should lie in memory, and what an
// order is worth. Functions orders the procedures of an image for a linker, Settle moves
// them out of each other's way in the instruction cache, Chains orders the blocks of a
// procedure, Startup the procedures by what runs first when a program starts. A Placement
// says where they lie, and its Scores what that is worth, beside an upper bound; they know
// nothing of how it was found, and Judge sets those of several beside one another. Sections
// writes an Order for linkers that go by sections, and GoAdvice says what can be done where
// none takes an order.
//
// FindFluff finds the code that is cold by evidence, Align what lies badly in fetch
// windows and lines, and Huge what belongs on huge pages.
//
// It refuses to order what it has seen nothing of: such procedures are not in an
// Order, and stay where the linker puts them. Profiles for compilers are package
// feedback's affair.
package layout
