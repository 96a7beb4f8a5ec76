package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/infer/image"
	"backfeed/sample"
)

// An ImageRow is one sampled image, or one reason why samples have none.
type ImageRow struct {
	Path      string `json:"path,omitempty"`
	BuildID   string `json:"build_id,omitempty"`
	Lost      string `json:"lost,omitempty"`
	Samples   uint64 `json:"samples"`
	Processes uint64 `json:"processes,omitempty"` // processes that began their program while recorded, and mapped the image
	Probed    int    `json:"probed,omitempty"`    // places whose executions probes observed
	Walked    int    `json:"walked,omitempty"`    // that walks passed through
	Counted   int    `json:"counted,omitempty"`   // that were counted in other runs
	State     string `json:"state,omitempty"`
	File      string `json:"file,omitempty"`
}

// NewImages lists the images of rec, with whether open finds them as state says it, then
// losses, each by falling samples.
func NewImages(rec *sample.Recording, open func(sample.ImageID) (*image.Image, error), state func(error) string) []ImageRow {
	rows := []ImageRow{}
	samples := rec.ByImage()
	for _, id := range MostFirst(samples) {
		row := ImageRow{Path: id.Path, Samples: samples[id]}
		row.Processes = rec.Processes(id)
		observed := rec.Observed(func(o sample.ImageID) bool { return o == id })
		row.Probed, row.Walked, row.Counted = observed.Probed, observed.Walked, observed.Counted
		if !id.Build.IsZero() {
			row.BuildID = id.Build.String()
		}
		im, err := open(id)
		row.State = state(err)
		if err == nil {
			row.File = im.Path
		}
		rows = append(rows, row)
	}
	losses := rec.Lost()
	for _, why := range MostFirst(losses) {
		rows = append(rows, ImageRow{Lost: string(why), Samples: losses[why]})
	}
	return rows
}

// WriteImages prints rows of NewImages as a table; total is of all samples.
func WriteImages(w io.Writer, rows []ImageRow, total uint64, style Style) error {
	columns := []Column{Right("samples"), Right("share")}
	exact := slices.ContainsFunc(rows, func(r ImageRow) bool { return r.Probed+r.Counted > 0 })
	walked := slices.ContainsFunc(rows, func(r ImageRow) bool { return r.Walked > 0 })
	begun := slices.ContainsFunc(rows, func(r ImageRow) bool { return r.Processes > 0 })
	if begun {
		columns = append(columns, Right("processes begun"))
	}
	if exact {
		columns = append(columns, Right("probed"), Right("counted"))
	}
	if walked {
		columns = append(columns, Right("walked"))
	}
	columns = append(columns, Left("state"), Left("build ID").Drop(1), Paths("image").Main())
	elsewhere := slices.ContainsFunc(rows, func(r ImageRow) bool { return r.elsewhere() != "" })
	if elsewhere {
		columns = append(columns, Paths("found at"))
	}
	t := NewTable(columns...)
	for _, r := range rows {
		state, name := r.State, r.Path
		if r.Lost != "" {
			state, name = "lost", fmt.Sprintf("(%s)", r.Lost)
		}
		cells := []string{Integer(r.Samples), Share(r.Samples, total)}
		if begun {
			cells = append(cells, Integer(r.Processes))
		}
		if exact {
			cells = append(cells, Integer(uint64(r.Probed)), Integer(uint64(r.Counted)))
		}
		if walked {
			cells = append(cells, Integer(uint64(r.Walked)))
		}
		cells = append(cells, state, r.BuildID, name)
		if elsewhere {
			cells = append(cells, r.elsewhere())
		}
		t.Row(cells...)
	}
	return t.Print(w, style)
}

// elsewhere is the file that is used of an image, if that is not the one at the recorded path, which may be another build.
func (r *ImageRow) elsewhere() string {
	if r.File == strings.TrimSuffix(r.Path, " (deleted)") {
		return ""
	}
	return r.File
}
