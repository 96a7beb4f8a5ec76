// Package layout works out in which order code should lie in memory, and what an
// order is worth. Functions orders the procedures of an image for a linker, Chains
// the blocks of a procedure; Score and CallScore judge orders of blocks and of
// procedures, and know nothing of how the orders were found.
//
// It refuses to order what it has seen nothing of: such procedures are not in an
// Order, and stay where the linker puts them. Profiles for compilers are package
// feedback's affair.
package layout
