package emit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// Propeller writes the clusters of blocks to w, and the order of functions to
// the file that the user named for the linker.
func Propeller(w io.Writer, src *input.Session, opt Options) ([]string, error) {
	again := func(image string) error {
		_, _, err := propeller(src, image)
		return err
	}
	ip, c, err := propeller(src, opt.Image)
	if err != nil {
		return nil, err
	}
	if c.Funcs == 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no function that ran has its blocks in the map of basic blocks; compile all of it with -fbasic-block-address-map", ip.ID.Path)
	}
	if err := c.WriteBlocks(w); err != nil {
		return nil, err
	}
	if err := opt.Write(opt.LD, c.WriteSymbols); err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("%s: blocks of %d functions, %d of them with a cold part; %d functions in order", ip.ID.Path, c.Funcs, c.Split, len(c.Order.Symbols))
	if c.Clones > 0 {
		summary += fmt.Sprintf("; %d blocks cloned", c.Clones)
	}
	skipped, dropped := feedback.Skipped{}, map[feedback.Reason]float64{}
	for why, left := range map[feedback.Reason]layout.Left{
		"functions with unknown targets of indirect jumps":                       c.Incomplete,
		"functions that the map of basic blocks lacks":                           c.Unmapped,
		"local functions of one name that no line table puts into a source file": c.Ambiguous,
		feedback.SkipName: c.Unfit,
	} {
		skipped[why], dropped[why] = left.Funcs, left.Insts
	}
	return append([]string{summary + leftOfExecuted(skipped, dropped, c.Executed)}, elsewhere(src, opt, again, ip.ID)...), nil
}

// propeller orders the image that the user named, or else the one with the most
// samples among those that have a map of basic blocks.
func propeller(src *input.Session, name string) (ip *infer.ImageProfile, c *layout.Clusters, err error) {
	images := slices.Clone(src.Profile.Images)
	slices.SortStableFunc(images, func(a, b *infer.ImageProfile) int { return cmp.Compare(b.Samples, a.Samples) })
	if name != "" {
		ip, err := src.Image(name)
		if err != nil {
			return nil, nil, err
		}
		images = []*infer.ImageProfile{ip}
	}
	var first error
	for _, ip := range images {
		c, err := layout.Propeller(ip, func(done, total int) {
			src.Notify().Progress("ordering functions of %s and their blocks: %d%%", ip.ID.Path, 100*done/max(total, 1))
		})
		src.Notify().Done()
		if err == nil {
			return ip, c, nil
		}
		if errors.Is(err, image.ErrNoBlockMap) {
			err = fail.Wrap(fail.Nothing, err)
		}
		first = cmp.Or(first, err)
	}
	return nil, nil, first
}
