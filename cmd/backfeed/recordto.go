package main

import (
	"path/filepath"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/output"
	"backfeed/sample/store"
)

// recordTo says where what is made of a recording is written.
type recordTo struct {
	file   string // "-" is standard output
	store  string // instead of file, unless it is ""
	copies string // the directory of --copy-to; "" is none
}

// check sees that all of it can be written, before anything is recorded for it: the samples of an hour cannot be had again.
func (c *cli) check(to recordTo) error {
	if to.copies != "" {
		if err := output.CheckBelow(filepath.Join(to.copies, ".build-id", "00", "0")); err != nil {
			return err
		}
	}
	if to.store != "" {
		return store.Check(to.store, input.StoreOptions(notices{c}))
	}
	return output.Check(to.file)
}
