package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/flagset"
	"backfeed/internal/testtool"
)

// TestConfig: flags of a file are those of a command line, which win.
func TestConfig(t *testing.T) {
	var said strings.Builder
	c := &cli{stdout: io.Discard, stderr: &said, cmd: agentCmd}
	for _, tt := range []struct{ text, says string }{
		{`# how much
agent:
  max-cpu: 0.5%   # of all
  frequency: 97
  retain-size: 20G
  label: {role: web, zone: a}
  kernel: true
  event: [cycles, branches]
  epoch: 1d
check:
  min-samples: 3
`, ""},
		{`{"agent": {"max-cpu": "0.5", "label": ["role=web", "zone=a"], "kernel": true, "events": "cycles,branches", "retain-size": "20 g", "epoch": "24h"}}`, "--events is --event now"},
		{`
# how much
max-cpu = 0.5 %   # of all
frequency = 97
retain-size = 20G
label = role=web
label = zone=a
kernel = true
event = cycles
event = branches
epoch = 24h
`, "the old form will go"},
	} {
		said.Reset()
		config := testtool.Write(t, t.TempDir(), "agent.yaml", tt.text)
		f, err := c.parseAgent([]string{"--config", config, "-F", "50", "--retain", "720h"})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if f.maxCPU != 0.005 || f.what.hz != 50 || f.retain.size != 20<<30 || f.labels["role"] != "web" || f.labels["zone"] != "a" ||
			!f.what.kernel || f.retain.age != 720*time.Hour || fmt.Sprint(f.what.events) != "[cycles branches]" || f.epoch != 24*time.Hour {
			t.Errorf("%s: %+v", tt.text, f)
		}
		if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.String() != "" {
			t.Errorf("%s: said %q, want %q", tt.text, said.String(), tt.says)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"frequency", "line 1: want the names of commands"},
		{"agent: frequency", "line 1: want the names of flags"},
		{"agent:\n  frequencies: 3", `line 2: "frequencies" is no flag that can be set here`},
		{"agent: {config: other}", `line 1: "config" is no flag`},
		{"agents: {store: x}", `line 1: "agents": want agent or check`},
		{"agent: {max-cpu: much}", "line 1: --max-cpu much: want a percentage above 0"},
		{"agent: {max-cpu: 0}", "above 0"},
		{"agent: {max-cpu: [1, 2]}", "line 1: max-cpu: want a percentage"},
		{"agent: {max-cpu: 1, max-cpu: 2}", "is given twice"},
		{"agent: {label: [{a: b}]}", "line 1: label: want a list of plain values"},
		{"agent: {store: }", "line 1: store: want a dir"},
		{"agent: {frequency: ten}", "want a whole number"},
		{"agent:\n  retain-size: 5X", "number of bytes"},
		{"agent: {epoch: 3s}", "--epoch 3s: want a minute"},
		{"agent: {frequency: 0}", "want a positive number"},
		{"agent: {store: *x}", "unknown anchor"},
		{"agent: {", "line 1: "},
		// as it was
		{"frequency = 3\nmax-cpu", "line 2: want name = value"},
		{"\nfrequencies = 3", `line 2: "frequencies" is no flag`},
		{"retain-size = 5X", "line 1: --retain-size 5X: want a number of bytes"},
	} {
		config := testtool.Write(t, t.TempDir(), "agent.yaml", tt.text)
		if _, err := c.parseAgent([]string{"--config", config}); codeOf(err) != exitUsage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	if _, err := c.parseAgent([]string{"--config", t.TempDir() + "/absent"}); codeOf(err) != exitFailed {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, cmd := range everyCommand() {
		reads := false
		for _, name := range configured {
			reads = reads || name == cmd.name
		}
		if has := flagsOf(cmd).Lookup("config") != nil; has != reads {
			t.Errorf("%s has --config: %v, is among those that read it: %v", cmd.name, has, reads)
		}
	}
}

// FuzzConfig: any text gives an error, or flags that a command line could give.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{"agent: {max-cpu: 1%, label: {a: b}}", "check:\n  min-used: 0.5", "agent: [1", "max-cpu = 1", "agent: &a {store: *a}", "{agent: {pid: [1, [2]]}}", "agent:", "\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, cmd := range []*command{agentCmd, checkCmd} {
			fs := flagsOf(cmd)
			fs.Warn = func(string, ...any) {}
			if flagset.OldConfig(string(b)) && fs.ConfigureLines(string(b)) != nil || !flagset.OldConfig(string(b)) && fs.Configure(b, cmd.name, configured) != nil {
				continue
			}
			fs.Visit(func(flag *pflag.Flag) {
				if list, ok := flag.Value.(interface{ GetSlice() []string }); !ok {
					if err := flagsOf(cmd).Set(flag.Name, flag.Value.String()); err != nil && flag.Value.String() != "" {
						t.Errorf("--%s was set to %q: %v", flag.Name, flag.Value, err)
					}
				} else if list == nil {
					t.Error("a list is none")
				}
			})
		}
	})
}
