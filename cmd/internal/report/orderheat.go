package report

import (
	"fmt"
	"path"

	"backfeed/infer"
	"backfeed/layout"
)

// NewHeatMap shows where the executed instructions of an image of p lie, and where they
// would if it was laid out in the order; if blocks, by what moves single blocks too.
func NewHeatMap(p *infer.Profile, ip *infer.ImageProfile, order *layout.Order, blocks bool, names Style) *HeatMap {
	after, title := order.Whole(), "Functions ordered"
	if blocks {
		after, title = order.Split(), "Blocks ordered too"
	}
	return &HeatMap{
		Image: path.Base(ip.ID.Path), Names: names,
		Lead: fmt.Sprintf("Where the executed instructions of %s lie, as it was linked and as backfeed suggests. "+
			"Executions are inferred from %d samples of %s. Unlisted functions follow.", ip.ID.Path, ip.Samples, p.Event.Name),
		Scores: scoreTable("score", order.Judged()),
		Before: Layout{Title: "As linked", Heat: layout.LinkedHeat(ip)},
		After:  Layout{Title: title, Heat: layout.PlacedHeat(ip, after)},
	}
}
