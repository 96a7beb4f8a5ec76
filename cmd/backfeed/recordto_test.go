package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestRecordTo: what cannot be written is said before anything is recorded for it, with the exit code of a file that failed.
func TestRecordTo(t *testing.T) {
	dir := t.TempDir()
	file, ran := testtool.Write(t, dir, "file", "as it was"), filepath.Join(dir, "ran")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		os.WriteFile(ran, nil, 0o666)
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer server.Close()
	gone, below := filepath.Join(dir, "gone", "x"), filepath.Join(file, "x")
	command := []string{"--", "touch", ran}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{append([]string{"record", "-o", gone}, command...), gone + ": no such file"},
		{append([]string{"record", "-o", below}, command...), below + ": not a directory"},
		{append([]string{"record", "-o", dir}, command...), dir + " is a directory"},
		{append([]string{"record", "--callers", "-o", gone}, command...), gone + ": no such file"},
		{append([]string{"record", "--off-cpu", "-o", gone}, command...), gone + ": no such file"},
		{append([]string{"record", "--calibrate", "-o", gone}, command...), gone + ": no such file"},
		{append([]string{"record", "--calibrate", "--calibrate-log", gone, "-o", ran + "2"}, command...), "--calibrate-log: " + gone + ": no such file"},
		{append([]string{"record", "--store", below}, command...), below + ": not a directory"},
		{append([]string{"record", "--copy-to", below, "-o", ran + "2"}, command...), "not a directory"},
		{[]string{"record", "-p", strconv.Itoa(os.Getpid()), "-d", "60s", "-o", gone}, gone + ": no such file"},
		{[]string{"record", "-a", "-d", "60s", "-o", gone}, gone + ": no such file"},
		{[]string{"record", "-a", "-d", "60s", "--store", below}, below + ": not a directory"},
		{[]string{"record", "--pprof", server.URL, "-o", gone}, gone + ": no such file"},
		{append([]string{"pgo", "-o", gone}, command...), gone + ": no such file"},
		{append([]string{"pgo", "--calibrate", "-o", below}, command...), below + ": not a directory"},
	} {
		code, _, errs := runCLI(t, tt.args...)
		if code != exitFailed || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", strings.Join(tt.args, " "), code, errs, exitFailed, tt.says)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: it was recorded all the same", strings.Join(tt.args, " "))
			os.Remove(ran)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || testtool.Read(t, file) != "as it was" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRecordToOfOthers: nor is anything recorded for a directory or a store that the user may not write to.
func TestRecordToOfOthers(t *testing.T) {
	dir, run := forOthers(t)
	theirs, home := filepath.Join(dir, "theirs"), filepath.Join(dir, "home")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"record", "-o", theirs + "/x.bfr"}, {"pgo", "-o", theirs + "/x.pgo"}, {"record", "--store", theirs + "/store"}, {"record", "--store", theirs}, {"record", "--copy-to", theirs}} {
		cmd := run(append(args, "--", "touch", "ran")...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(out), theirs) {
			t.Errorf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		if _, err := os.Stat(filepath.Join(home, "ran")); err == nil {
			t.Errorf("%s: it was recorded all the same", strings.Join(args, " "))
			os.Remove(filepath.Join(home, "ran"))
		}
	}
}
