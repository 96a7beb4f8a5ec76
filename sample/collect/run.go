package collect

import (
	"os"
	"time"

	"backfeed/sample"
)

// RunOf returns what is to be kept of a recording as a whole, which has ended: when and where it was made and, if a command was
// recorded, its program, and what it used, by how it ended. Of processes that others began, and of a whole machine, nothing
// is kept of a command.
func RunOf(began time.Time, lasted time.Duration, command []string, ended *os.ProcessState) sample.Run {
	r := sample.Run{Began: uint64(max(0, began.UnixMilli())), Lasted: uint64(lasted.Milliseconds())}
	r.Host, _ = os.Hostname()
	r.Command = sample.CommandName(command)
	if ended != nil {
		r.Usage = usageOf(ended)
	}
	return r
}
