package collect

import "strings"

// StatFields returns the fields of a line of /proc/PID/stat (proc(5)) from the state on, which is the third: the name before it
// may hold anything.
func StatFields(stat string) []string {
	return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
}
