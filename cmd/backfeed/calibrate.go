package main

import (
	"errors"
	"fmt"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
)

// calibrateFlags are those of commands that may calibrate.
type calibrateFlags struct {
	budget  flagset.Share // 0 is no calibration
	dry     bool
	mangled bool // in what dry prints
	log     string
	paths   bool
	usual   bool // what paths is if the flag is not given
}

// define adds the flags; dry is one where something else is done than to record.
func (f *calibrateFlags) define(fs *flagset.Set, dry bool) {
	fs.Var(&f.budget, "calibrate", "see exactly where branches go and how often code runs, by walks and probes, which may take `percent` of the processor time")
	fs.Lookup("calibrate").NoOptDefVal = "1%"
	fs.Lookup("calibrate").DefValue = ""
	fs.StringVar(&f.log, "calibrate-log", "", "write to `file` what was probed when, and what was counted")
	if dry {
		fs.BoolVar(&f.dry, "dry-run", false, "with --calibrate, say what would be probed, and probe nothing")
		fs.BoolVar(&f.mangled, "mangled", false, "with --dry-run, name procedures as the linker does")
	}
}

// definePaths adds the flag that has paths of walks kept, or not, which is usual.
func (f *calibrateFlags) definePaths(fs *flagset.Set, usual bool) {
	fs.BoolVar(&f.paths, "paths", usual, "with --calibrate, keep a sample of the paths that walks took, of up to 0.3 MB, for export")
	f.usual = usual
}

// check finds what does not go together.
func (f *calibrateFlags) check() error {
	switch {
	case f.budget == 0 && (f.dry || f.log != ""):
		return errors.New("--dry-run and --calibrate-log go with --calibrate")
	case f.budget == 0 && f.paths != f.usual:
		return errors.New("--paths goes with --calibrate")
	case f.mangled && !f.dry:
		return errors.New("--mangled goes with --dry-run")
	case f.dry && f.log != "":
		return errors.New("want --dry-run or --calibrate-log, not both")
	}
	return nil
}

// options opens the log, and makes options of the flags.
func (f *calibrateFlags) options(pids []int, notify report.Notify, style report.Style) (calibrate.Options, error) {
	opt := calibrate.Options{Budget: float64(f.budget), Paths: f.paths, Dry: f.dry, PIDs: pids, Notify: notify, Style: style}
	opt.Style.Mangled = f.mangled
	if f.log != "" {
		log, err := output.Append(f.log)
		if err != nil {
			return opt, fmt.Errorf("--calibrate-log: %w", err)
		}
		opt.Log = log
	}
	return opt, nil
}
