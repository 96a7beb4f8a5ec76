package report

// Notify is how packages below main speak to the user while they work. What is said is
// formatted as by Fprintf: arguments are made safe, lines end where format has it.
type Notify interface {
	Warn(format string, args ...any)     // says something on a line of its own
	Progress(format string, args ...any) // replaces the one line of progress
	Done()                               // takes the line of progress away
}

// Quiet is a Notify that says nothing.
type Quiet struct{}

func (Quiet) Warn(string, ...any)     {}
func (Quiet) Progress(string, ...any) {}
func (Quiet) Done()                   {}
