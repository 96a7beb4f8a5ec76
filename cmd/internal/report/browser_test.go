package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	elf "backfeed/infer/image"
	"backfeed/internal/testtool"
)

// A sight is a page as a browser has it.
type sight struct {
	dom     string // with what scripts made of it
	console string // what it complained of
	screen  image.Image
}

// look opens a page of 1280 by 1400 pixels in a headless browser; fragment is empty
// or begins with "#".
func look(t *testing.T, text, fragment string, flags ...string) sight {
	t.Helper()
	browser := testtool.Path(t, "chromium")
	dir := t.TempDir()
	file, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--enable-logging=stderr", "--hide-scrollbars", "--window-size=1280,1400", "--force-device-scale-factor=1", "--force-color-profile=srgb",
		"--dump-dom", "--screenshot=" + shot,
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), browser, append(append(args, flags...), "file://"+file+fragment)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	s := sight{dom: stdout.String()}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, ":CONSOLE") {
			s.console += line
		}
	}
	f, err := os.Open(shot)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	defer f.Close()
	if s.screen, err = png.Decode(f); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHeatMapInBrowser: in both layouts each page has its place and the colour of its
// heat, with scripts, without them and on a dark screen.
func TestHeatMapInBrowser(t *testing.T) {
	procs := make([]code, pagesPerHuge)
	for i := range procs {
		procs[i] = code{name: "f", start: 0x400000 + 4096*elf.Addr(i), size: 4096}
	}
	procs[37].n, procs[300].n = 1e6, 1e6
	text := page(t, heatMap(procs, 300, 37))
	// The browser's own commands need scripts, so the page's are forbidden instead.
	noScripts := scriptPolicy.ReplaceAllString(text, "script-src &#39;none&#39;")
	light := [2]color.Color{color.RGBA{0xe6, 0xe9, 0xed, 0xff}, color.RGBA{0x5a, 0, 0, 0xff}} // --h0 and --h7 of style.css
	dark := [2]color.Color{color.RGBA{0x28, 0x2d, 0x34, 0xff}, color.RGBA{0xff, 0xf0, 0xd6, 0xff}}
	for _, tt := range []struct {
		name, text string
		flags      []string
		colors     [2]color.Color
		scripts    bool
	}{
		{"scripts", text, nil, light, true},
		{"no scripts", noScripts, nil, light, false},
		{"dark", text, []string{"--blink-settings=preferredColorScheme=0"}, dark, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := look(t, tt.text, "", tt.flags...)
			if ran := strings.Contains(s.dom, ` data-script="on"`); ran != tt.scripts {
				t.Errorf("script ran: %v, want %v", ran, tt.scripts)
			}
			// A script that may not run is the one thing to complain of.
			if lines := strings.Count(s.console, ":CONSOLE"); lines > 0 && tt.scripts || lines != 1 && !tt.scripts {
				t.Errorf("the browser complains:\n%s", s.console)
			}
			middle := s.screen.Bounds().Dx() / 2
			for side, hot := range [][]int{{37, 300}, {0, 1}} {
				half := image.Rect(side*middle, 0, (side+1)*middle, s.screen.Bounds().Dy())
				checkBox(t, s.screen, half, tt.colors, hot)
			}
		})
	}
	t.Run("link", func(t *testing.T) {
		t.Parallel()
		s := look(t, text, "#b425000")
		if !strings.Contains(s.dom, `id="b425000"><details open`) || strings.Count(s.dom, "<details open") != 1 {
			t.Error("a link to a page does not open that page alone")
		}
	})
}

var scriptPolicy = regexp.MustCompile(`script-src [^"]*`)

// checkBox finds a box of 32 by 16 cells in a part of the screen, and checks the
// colours of all its cells. Most of them did not run.
func checkBox(t *testing.T, screen image.Image, part image.Rectangle, colors [2]color.Color, hot []int) {
	t.Helper()
	var box image.Rectangle
	for y := part.Min.Y; y < part.Max.Y; y++ {
		row, n := image.Rectangle{}, 0
		for x := part.Min.X; x < part.Max.X; x++ {
			if same(screen.At(x, y), colors[0]) {
				row = row.Union(image.Rect(x, y, x+1, y+1))
				n++
			}
		}
		if n > part.Dx()/2 { // the legend has the colour too
			box = box.Union(row)
		}
	}
	const columns, rows = 32, 16
	if box.Dx() < 4*columns || box.Dy() < 4*rows {
		t.Errorf("no box in %v, but %v", part, box)
		return
	}
	for i := range columns * rows {
		// Cells are 8 units apart, and the last ends a unit early.
		x := box.Min.X + (i%columns*cellUnits+3)*box.Dx()/(columns*cellUnits-1)
		y := box.Min.Y + (i/columns*cellUnits+3)*box.Dy()/(rows*cellUnits-1)
		want := colors[0]
		for _, h := range hot {
			if i == h {
				want = colors[1]
			}
		}
		if got := screen.At(x, y); !same(got, want) {
			t.Errorf("cell %d at %d,%d is %v, want %v", i, x, y, got, want)
		}
	}
}

func same(a, b color.Color) bool {
	r, g, bl, _ := a.RGBA()
	r2, g2, bl2, _ := b.RGBA()
	return r == r2 && g == g2 && bl == bl2
}
