// Package emit writes the profiles of package feedback from a Session, and says in a line what
// is in them, what is left out, what share of the weight that is, and what would bring it in.
// GCDA makes a file for each object of a build, by the notes that gcc wrote of it.
// MakeOffers makes all that a build could have of one image, with what each is worth. Lcov and SARIF write lines of
// source for editors. Stacks makes branch records of the paths in a recording, for tools that make their own profiles.
// It refuses what would be of no use to the consumer. Where a profile goes, and whether one that
// is there stays, is the command's; package feedback has the formats.
package emit
