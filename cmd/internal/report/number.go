package report

import (
	"fmt"
	"math"
	"strconv"

	"backfeed/sample"
)

// Count prints a large number of anything with three significant digits and a
// decimal prefix: 0, 7, 812, 8.12k, 81.2M. Numbers below 1 that are not 0 keep
// two digits. What is not a number is unknown, and prints as a dash.
func Count(n float64) string {
	if math.IsNaN(n) {
		return "-"
	}
	if n < 0 {
		return "-" + Count(-n)
	}
	const prefixes = "kMGTPE"
	if n < 1000 && n == math.Trunc(n) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	if n < 1 {
		return strconv.FormatFloat(n, 'g', 2, 64)
	}
	prefix := ""
	for i := 0; round3(n) >= 1000 && i < len(prefixes); i++ {
		n /= 1000
		prefix = prefixes[i : i+1]
	}
	digits := 2
	switch r := round3(n); {
	case r >= 100:
		digits = 0
	case r >= 10:
		digits = 1
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + prefix
}

// round3 rounds n > 0 to three significant digits, so that 999.6 counts as 1000.
func round3(n float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(n))-2)
	return math.Round(n/scale) * scale
}

// Integer prints n in full.
func Integer(n uint64) string { return strconv.FormatUint(n, 10) }

// Percent prints a share (1 is all) with one decimal. A share that is not quite
// nothing, or not quite all, never looks as if it were.
func Percent(share float64) string {
	switch p := 100 * share; {
	case math.IsNaN(p):
		return "-"
	case p > 0 && p < 0.05:
		return "<0.1%"
	case p < 100 && p >= 99.95:
		return ">99.9%"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	}
}

// Share is Percent of part in whole; a dash where there is no whole.
func Share(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return Percent(float64(part) / float64(whole))
}

// Ratio prints a number of cycles, or one relative to another, with two decimals below
// 10 and fewer above.
func Ratio(n float64) string {
	switch {
	case math.IsNaN(n) || n >= 99.95:
		return Count(n)
	case n > 0 && n < 0.005:
		return "<0.01"
	case n >= 9.995:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// Seconds prints a time with three significant digits, in seconds or parts of them.
func Seconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "-"
	case s == 0 || round3(s) >= 1:
		return Count(s) + " s"
	case round3(s) >= 1e-3:
		return Count(s*1e3) + " ms"
	case round3(s) >= 1e-6:
		return Count(s*1e6) + " us"
	}
	return Count(s*1e9) + " ns"
}

// Amount prints so many samples of an event: of time off the processor, the time that they are.
func Amount(event string, n uint64) string {
	if sample.IsOff(event) {
		return Seconds(float64(n) * sample.OffPeriod / 1e9)
	}
	return Integer(n)
}

// AmountOf is Amount in a sentence.
func AmountOf(event string, n uint64) string {
	if sample.IsOff(event) {
		return Amount(event, n)
	}
	return Integer(n) + " samples"
}

// Parts prints a part of so many samples of an event, and all of them: "12 of 34 samples", and of time off the processor "1.20 s of
// 3.40 s", with as many digits as it takes to tell them apart.
func Parts(event string, part, all uint64) string {
	if !sample.IsOff(event) {
		return fmt.Sprintf("%d of %d samples", part, all)
	}
	const perSecond = 1e9 / sample.OffPeriod
	x, y := float64(part)/perSecond, float64(all)/perSecond
	if part == all || round3(x) != round3(y) {
		return Amount(event, part) + " of " + Amount(event, all)
	}
	for digits := 2; ; digits++ { // with six, any are apart
		a, b := strconv.FormatFloat(x, 'f', digits, 64), strconv.FormatFloat(y, 'f', digits, 64)
		if a != b || digits == 6 {
			return a + " s of " + b + " s"
		}
	}
}

// AmountHead heads a column of amounts.
func AmountHead(event string) string {
	if sample.IsOff(event) {
		return "time"
	}
	return "samples"
}

// Bytes prints a number of bytes, in the largest unit of 1024 that it is a multiple of: "1G", "1500K".
func Bytes(n int64) string {
	unit := ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}
