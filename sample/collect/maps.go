package collect

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// parseMaps reads what of /proc/PID/maps is executable, as the records that the
// kernel would have written:
//
//	55d0c8b8f000-55d0c8c68000 r-xp 0002f000 08:01 1835342      /usr/bin/bash
func parseMaps(r io.Reader, pid int) ([]mmapRecord, error) {
	var maps []mmapRecord
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<16) // a path has up to 4096 bytes, four times that if escaped
	for sc.Scan() {
		m := mmapRecord{pid: pid}
		var end uint64
		var perms string
		line := sc.Text()
		if _, after, _ := strings.Cut(line, " "); len(after) > 5 && after[4] == ' ' && after[2] == '-' {
			continue // not executable, as most are
		}
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %x:%x %d", &m.start, &end, &perms, &m.fileOff, &m.maj, &m.min, &m.inode); err != nil {
			return nil, fmt.Errorf("%q is not a mapping as /proc/PID/maps has them", line)
		}
		if !strings.Contains(perms, "x") {
			continue
		}
		m.size = end - m.start
		m.path = pathField(line)
		maps = append(maps, m)
	}
	return maps, sc.Err()
}

// pathField returns what follows the five other fields of a line of maps; a path
// may hold spaces. The kernel writes a newline in it as \012.
func pathField(line string) string {
	for range 5 {
		_, rest, _ := strings.Cut(line, " ")
		line = strings.TrimLeft(rest, " ")
	}
	return strings.ReplaceAll(line, `\012`, "\n")
}
