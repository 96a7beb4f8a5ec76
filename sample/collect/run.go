package collect

import (
	"os"
	"time"

	"backfeed/sample"
)

// maxCommand is how much of a command line is kept, in bytes.
const maxCommand = 4 << 10

// RunOf returns what is to be kept of a recording as a whole, which ends now: when and where it was made and, if a command was
// recorded, its line, and what it used, by how it ended. Of processes that others began, and of a whole machine, no command
// is kept: its line may hold what is not for whoever reads the recording.
func RunOf(began time.Time, command []string, ended *os.ProcessState) sample.Run {
	r := sample.Run{Began: uint64(max(0, began.UnixMilli())), Lasted: uint64(time.Since(began).Milliseconds())}
	r.Host, _ = os.Hostname()
	room := maxCommand
	for _, arg := range command {
		if room -= len(arg); room < 0 {
			r.Command = append(r.Command, "...")
			break
		}
		r.Command = append(r.Command, arg)
	}
	if ended != nil {
		r.Usage = usageOf(ended)
	}
	return r
}
