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
	m := &HeatMap{
		Image: path.Base(ip.ID.Path), Names: names,
		Lead:   fmt.Sprintf("Where the executed instructions of %s lie, as it was linked. Executions are inferred from %d samples of %s.", ip.ID.Path, ip.Samples, p.Event.Name),
		Before: Layout{Title: "As linked", Heat: layout.LinkedHeat(ip)},
	}
	if len(order.Symbols) == 0 { // nothing can be moved
		return m
	}
	after, title := order.Whole(), "Functions ordered"
	if blocks {
		after, title = order.Split(), "Blocks ordered too"
	}
	m.Lead = fmt.Sprintf("Where the executed instructions of %s lie, as it was linked and as backfeed suggests. "+
		"Executions are inferred from %d samples of %s. Unlisted functions follow.", ip.ID.Path, ip.Samples, p.Event.Name)
	m.Scores = scoreTable("score", order.Judged())
	m.After = Layout{Title: title, Heat: layout.PlacedHeat(ip, after)}
	return m
}
