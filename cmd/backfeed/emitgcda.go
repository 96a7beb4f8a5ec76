package main

import (
	"errors"
	"fmt"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/output"
)

var emitGCDACmd = &command{
	name: "emit gcda", args: "SRC... --notes DIR... -o DIR [--symfs DIR]", short: "write counters for gcc -fprofile-use, a file for each object",
	reads: symfsHelp,
	long: `gcc reads them as those of its own instrumented builds, by block, and makes more of them than of an .afdo profile. It is for
gcc 9 and later. The sampled build needs -g.

The files are put onto gcc's own flow graphs, which it writes as notes (.gcno) beside the objects if
-ftest-coverage is added to -fprofile-use=DIR. So the program is built twice: for the notes, and by the files. Both builds need the
same gcc, sources, options, directory and -o; ` + "`backfeed help c`" + ` says more. Objects and functions of which nothing is known
get no counters, and gcc optimises them as usual. Files of other objects in the directory stay.`,
	examples: `backfeed record -o app.bfr -- ./app input
cp app app.recorded
flags="-O2 -g -fprofile-use=$PWD/prof -Wno-missing-profile"
make clean && make CFLAGS="$flags -ftest-coverage"
backfeed emit gcda app.bfr --image app.recorded --notes . -o prof
make clean && make CFLAGS="$flags"`,
	run: runEmitGCDA,
}

func runEmitGCDA(c *cli, args []string) error {
	fs := c.flags()
	image := fs.String("image", "", "write about the image with that `path` or build ID")
	notes := fs.StringArray("notes", nil, "read gcc's notes (.gcno) below `dir`, or that file; may be given several times")
	in := c.inputs()
	var out *string
	fs.Grouped(outputFlags, func() { out = fs.StringP("output", "o", "", "write files below `dir`, which is made if need be") })
	c.inference(in)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	switch {
	case len(*notes) == 0:
		return c.usage(errors.New("--notes DIR is missing: where gcc wrote its notes (.gcno), built with -ftest-coverage added"))
	case *out == "":
		return c.usage(errors.New("-o DIR is missing: where -fprofile-use=DIR looks"))
	case output.IsStdout(*out):
		return c.usage(errors.New("it writes a file for each object, which standard output cannot hold: name a directory with -o"))
	}
	if err := c.selects(fs.Args()); err != nil {
		return err
	}
	graphs, err := emit.ReadNotes(*notes) // before what takes longer
	if err != nil {
		return err
	}
	in.Images, in.Only = []string{*image}, *image
	in.Infer.Executions = true
	src, err := c.inferred(fs.Args(), in)
	if fail.KindOf(err) == fail.Nothing && *image == "" {
		err = fmt.Errorf("%w; where the build of notes has replaced the recorded program, name a copy of that with --image", err)
	}
	if err != nil {
		return err
	}
	defer src.Close()
	var opt emit.Options
	switch {
	case src.Calls != nil:
		return fail.Errorf(fail.Nothing, "a profile of functions and lines alone has no images, and nothing is inferred from it: record the program")
	case *image != "":
		ip, err := src.Image(*image)
		if err != nil {
			return err
		}
		opt.Image = emit.NameOf(ip.ID)
	}
	files, summary, err := emit.GCDA(src, graphs, *out, opt)
	if err := c.tellUnfit(src, err); err != nil {
		return err
	}
	if err := output.WriteAll(files); err != nil {
		return err
	}
	for _, s := range summary {
		c.warn("%s", s)
	}
	c.warn("next: %s", emit.GCDABuild(*out))
	c.tellThin(src, orMore)
	return nil
}
