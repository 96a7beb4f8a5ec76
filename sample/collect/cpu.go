package collect

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"

	"backfeed/sample"
)

// parseCPU reads the first processor of /proc/cpuinfo. base is its nominal clock
// in kHz, 0 if the system does not tell.
func parseCPU(r io.Reader, arch string, base int) (sample.CPU, error) {
	field := map[string]string{}
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		key, value, ok := strings.Cut(sc.Text(), ":")
		if !ok {
			if len(field) > 0 {
				break // a blank line: the next processor
			}
			continue
		}
		field[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	number := func(key string) int {
		n, err := strconv.ParseInt(field[key], 0, 32)
		if err != nil || n < 0 {
			return 0
		}
		return int(n)
	}
	cpu := sample.CPU{Arch: arch}
	switch arch {
	case "x86_64":
		cpu.Vendor, cpu.Name = field["vendor_id"], field["model name"]
		cpu.Family, cpu.Model, cpu.Stepping = number("cpu family"), number("model"), number("stepping")
	case "aarch64":
		cpu.Vendor, cpu.Model = field["CPU implementer"], number("CPU part")
		cpu.Stepping = number("CPU variant")<<4 | number("CPU revision")
		cpu.Name = field["model name"]
	}
	mhz, _ := strconv.ParseFloat(field["cpu MHz"], 64)
	cpu.MHz = clock(mhz, base)
	return cpu, sc.Err()
}

// clock returns a processor's clock in MHz, from what it runs at just now and its
// nominal clock in kHz; each is 0 if unknown. The present clock is rounded to
// 10 MHz, so that it is the same each time on a machine that keeps it.
func clock(now float64, base int) int {
	if base > 0 {
		return int(math.Round(float64(base) / 1000))
	}
	if now > 0 && now < 1e6 {
		return int(math.Round(now/10)) * 10
	}
	return 0
}
