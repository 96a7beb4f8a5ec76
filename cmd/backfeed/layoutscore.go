package main

import (
	"errors"
	"fmt"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

const layoutScoresHelp = `Scores say what a placement is worth by the counts, whoever made it: that of blocks is the ext-TSP
score of LLVM's and BOLT's block order, in executions; a jump is taken where control does not run on;
bytes, cache lines and pages are the fewest that hold 90, 99 and 99.9 % of the executed instructions.
They are given for the image as it is linked; with its functions in the order, as linkers can do; with
blocks moved too and cold ones apart, as llvm-bolt and Propeller can; and for an upper bound,
which no placement can beat and none need reach. --relinked scores what a linker or llvm-bolt really made of it, and says
of how much of the execution it found the code there. --holdout scores the same on other samples of
the same image, beside an order made from those: what is lost to inputs that differ.`

// A judgement is what the flags say of scores.
type judgement struct {
	holdout  *[]string
	relinked *string
}

// judgement defines the flags that ask for more scores.
func (c *cli) judgement() *judgement {
	return &judgement{
		holdout:  c.fs.StringArray("holdout", nil, "for text and json: score the order on the samples of `SRC` too, which have no part in it; may be given again"),
		relinked: c.fs.String("relinked", "", "for text and json: score `file` too, the image as a linker or llvm-bolt has ordered it"),
	}
}

// check refuses flags that the target has no use for.
func (j *judgement) check(target string) error {
	if target != "text" && target != "json" && (len(*j.holdout) > 0 || *j.relinked != "") {
		return errors.New("--holdout and --relinked go with --for text or json")
	}
	return nil
}

// of reads what the flags name, and returns the scores of an order for ip, the image
// called name.
func (j *judgement) of(c *cli, name string, order *layout.Order, ip *infer.ImageProfile, opt *input.Options) ([]layout.Judged, error) {
	var holdout *layout.Order
	if len(*j.holdout) > 0 {
		src, err := c.inferredAlso(*j.holdout, opt)
		if err != nil {
			return nil, err
		}
		defer src.Close()
		held, err := src.Image(name)
		if err != nil {
			return nil, fmt.Errorf("--holdout: %w", err)
		}
		if holdout, err = c.order(src, held, "", 0); err != nil {
			return nil, err
		}
	}
	var relinked *image.Image
	if *j.relinked != "" {
		im, err := image.Open(*j.relinked, image.Options{})
		if err != nil {
			return nil, input.Mistaken(*j.relinked, input.WantImage, err)
		}
		defer im.Close()
		relinked = im
	}
	defer c.clearProgress()
	scores, err := layout.Judge(order, holdout, ip.Image, relinked, func(done, total int) {
		c.progress("scoring the order of %d functions: %d%%", len(order.Procs()), 100*done/max(total, 1))
	})
	if errors.Is(err, layout.ErrElsewhere) {
		return nil, fail.Errorf(fail.Nothing, "--relinked: %s has %w: is it a build of the same program?", *j.relinked, err)
	}
	return scores, err
}
