package report

import (
	"image"
	"image/color"
	"path/filepath"
	"testing"

	elf "backfeed/infer/image"
	"backfeed/internal/testtool"
)

// TestHeatMapInBrowser: in both layouts each page has its place and the colour of its
// heat, with scripts, without them and on a dark screen.
func TestHeatMapInBrowser(t *testing.T) {
	procs := make([]code, pagesPerHuge)
	for i := range procs {
		procs[i] = code{name: "f", start: 0x400000 + 4096*elf.Addr(i), size: 4096}
	}
	procs[37].n, procs[300].n = 1e6, 1e6
	text := page(t, heatMap(procs, 300, 37))
	url := "file://" + filepath.ToSlash(testtool.Write(t, t.TempDir(), "page.html", text))
	b := testtool.NewBrowser(t)
	light := [2]color.Color{color.RGBA{0xe6, 0xe9, 0xed, 0xff}, color.RGBA{0x5a, 0, 0, 0xff}} // --h0 and --h7 of style.css
	dark := [2]color.Color{color.RGBA{0x28, 0x2d, 0x34, 0xff}, color.RGBA{0xff, 0xf0, 0xd6, 0xff}}
	for _, tt := range []struct {
		name   string
		screen testtool.Screen
		colors [2]color.Color
	}{
		{"scripts", testtool.Screen{}, light},
		{"no scripts", testtool.Screen{NoScripts: true}, light},
		{"dark", testtool.Screen{Dark: true}, dark},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.screen.Width, tt.screen.Height = 1280, 1400
			tab := b.Open(t, url, tt.screen)
			if ran := tab.Count("html[data-script=on]") == 1; ran == tt.screen.NoScripts {
				t.Errorf("the script ran: %v", ran)
			}
			if all := tab.Complaints(); len(all) > 0 {
				t.Errorf("the browser complains: %q", all)
			}
			screen := tab.Picture()
			middle := screen.Bounds().Dx() / 2
			for side, hot := range [][]int{{37, 300}, {0, 1}} {
				half := image.Rect(side*middle, 0, (side+1)*middle, screen.Bounds().Dy())
				checkBox(t, screen, half, tt.colors, hot)
			}
		})
	}
	t.Run("link", func(t *testing.T) {
		tab := b.Open(t, url+"#b425000", testtool.Screen{})
		if tab.Count("#b425000 > details[open]") != 1 || tab.Count("details[open]") != 1 {
			t.Error("a link to a page does not open that page alone")
		}
	})
}

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
