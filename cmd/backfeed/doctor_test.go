package main

import (
	"encoding/json"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

func TestDoctor(t *testing.T) {
	testtool.Live(t, "has the kernel load programs")
	code, out, errs := runAs(doctorCmd, "--format", "json")
	var doc report.Checkup
	if err := json.Unmarshal([]byte(out), &doc); code != exitDone || err != nil || doc.Schema != "backfeed.doctor/1" || len(doc.Findings) == 0 {
		t.Errorf("exit code %d, %v: %s\n%s", code, err, errs, out)
	}
	if code, out, errs := runAs(doctorCmd); code != exitDone || !strings.Contains(out, "sampling") {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
	if code, _, _ := runAs(doctorCmd, "x"); code != exitUsage {
		t.Errorf("with an argument: exit code %d", code)
	}
}
