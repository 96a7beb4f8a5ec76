package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestLayoutHTML: the heat map of a compiled program names what ran, and is written
// beside the order or without it.
func TestLayoutHTML(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	page := filepath.Join(t.TempDir(), "map.html")
	if out := must(t, "layout", program, rec, "--html", page); out != "" {
		t.Errorf("nobody asked for the order, but it was printed:\n%s", out)
	}
	text := testtool.Read(t, page)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"<h1>Code layout of program</h1>", "<h3>As linked</h3>", "<h3>Functions ordered</h3>", "ext-TSP", `class="h7"`, `class="names">work`, "drive"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if out := must(t, "layout", program, rec, "--html", page, "--for", "lld", "--always"); !strings.Contains(out, "work\n") || testtool.Read(t, page) != text {
		t.Errorf("with --for lld: another page, or no order in\n%s", out)
	}
	if must(t, "layout", program, rec, "--html", page, "--for", "bolt"); !strings.Contains(testtool.Read(t, page), "<h3>Blocks ordered too</h3>") {
		t.Error("with --for bolt blocks are not ordered")
	}
	if code, _, stderr := runCLI(t, "layout", program, rec, "--html", filepath.Join(page, "x")); code != exitFailed || !strings.Contains(stderr, "x: not a directory") {
		t.Errorf("a page that cannot be written: exit code %d, %q", code, stderr)
	}
	if code, _, stderr := runCLI(t, "layout", program, rec, "--html", page, "--fluff"); code != exitUsage || !strings.Contains(stderr, "--html has no effect: it is about an order") {
		t.Errorf("with --fluff: exit code %d, %q", code, stderr)
	}
}
