package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
)

// A configuration is flags in a file of YAML: below the name of a command, a key for each flag, whose value is
// what follows the flag on a command line, a list of such, or, of labels, a map:
//
//	agent:
//	  max-cpu: 0.5%
//	  pid: [12, 34]
//	  label: {service: api}

// configFile is the configuration that check reads where it is there.
const configFile = "backfeed.yaml"

// configured are the commands that read a configuration.
var configured = []string{"agent", "check", "optimize", "refresh"}

const configHelp = `--config names a file of YAML with a key for each flag below the name of the command: what follows the flag on a
command line, or a list, or, of labels, a map. Flags of the command line win. One file may be for several commands.`

// config defines the flag that names the configuration.
func (c *cli) config(usage string) *string {
	return c.fs.String("config", "", usage)
}

// readConfig sets flags that were not given by the file at path; with optional, it need not be there.
func (c *cli) readConfig(path string, optional bool) error {
	b, err := os.ReadFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	if c.cmd.name == "agent" && flagset.OldConfig(string(b)) {
		c.warn("%s: lines \"name = value\" are YAML now, \"name: value\" below \"agent:\"; the old form will go", path)
		err = c.fs.ConfigureLines(string(b))
	} else {
		err = c.fs.Configure(b, c.cmd.name, configured)
	}
	if err != nil {
		return input.Mistaken(path, input.WantConfig, fail.Errorf(fail.Usage, "%s: %w", path, err))
	}
	return nil
}
