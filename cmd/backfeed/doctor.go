package main

import (
	"backfeed/cmd/internal/doctor"
	"backfeed/cmd/internal/report"
)

var doctorCmd = &command{
	name: "doctor", args: "[--format text|json|csv|markdown]", short: "say what this machine can do, and how to get more",
	long: `Checks whether and how programs can be sampled and probed here, which experiments of prof can be made, what the
kernel permits to this user, and which tools are installed that backfeed works with. It changes nothing; for
--calibrate it probes a small program of its own.`,
	examples: `backfeed doctor
backfeed doctor --format json`,
	run: runDoctor,
}

func runDoctor(c *cli, args []string) error {
	fs := c.flags()
	format := c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return c.usage(err)
	}
	doc := report.NewCheckup(doctor.Examine())
	return c.print("-", format, doc, doc.Findings, doc.Text)
}
