package main

import (
	"fmt"
	"io"
	"path"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/layout"
)

// writeHeatMap draws the layouts of an image as one page.
func writeHeatMap(w io.Writer, p *infer.Profile, ip *infer.ImageProfile, order *layout.Order, tool string, names report.Style) error {
	return heatMap(p, ip, order, tool, names).Write(w)
}

// heatMap draws where the executed instructions of an image lie, and where they
// would if a tool laid it out as suggested. Linkers move functions alone.
func heatMap(p *infer.Profile, ip *infer.ImageProfile, order *layout.Order, tool string, names report.Style) *report.HeatMap {
	after, title := order.Whole(), "Functions ordered"
	if movesBlocks[tool] {
		after, title = order.Split(), "Blocks ordered too"
	}
	return &report.HeatMap{
		Image: path.Base(ip.ID.Path), Names: names,
		Lead: fmt.Sprintf("Where the executed instructions of %s lie, as it was linked and as backfeed suggests. "+
			"Executions are inferred from %d samples of %s. Unlisted functions follow.", ip.ID.Path, ip.Samples, p.Event.Name),
		Scores: scoreTable("score", scoresOf(order)),
		Before: report.Layout{Title: "As linked", Heat: layout.LinkedHeat(ip)},
		After:  report.Layout{Title: title, Heat: layout.PlacedHeat(ip, after)},
	}
}

// movesBlocks has the readers of an order, by their words for --for, that move single
// blocks; people want to see the most that there is to gain.
var movesBlocks = map[string]bool{"bolt": true, "propeller": true, "text": true, "json": true}
