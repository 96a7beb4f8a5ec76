package main

import (
	_ "embed"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"backfeed/cmd/internal/agent"
	"backfeed/cmd/internal/report"
	"backfeed/sample/collect"
)

var agentCmd = &command{
	name: "agent", args: "[--store DIR] [-F HZ] [--max-cpu SHARE] [--config FILE]", short: "sample all that runs on this machine, all the time, into a store",
	long: `The agent runs until SIGTERM or an interrupt, and then writes what it has. Nothing leaves the machine
unless --store is s3://BUCKET/PREFIX: each epoch that is over is sent there, and kept in --spool until it has arrived (see
"bucket").

Its cost stays below --max-cpu on the average of ten minutes, a share of all processors. That is its own processor time,
what samples take from the programs that they interrupt, and with --off-cpu what the kernel's programs take at switches of
threads. -F is the highest rate; the agent lowers it where it must.

Samples are gathered in memory and written every --flush; kill -9 loses at most that. What is written
is merged by --epoch.

--calibrate sees how often code runs: by walks, which follow a thread from a sample on, and by probes, for
milliseconds at a time (see ` + "`backfeed help calibrate`" + `). They take that share of processor time beside
--max-cpu. What to probe is chosen a minute after the start, and every hour.

--off-cpu adds up where threads are off the processor, too, with whole stacks. That takes about 1 us of each
switch of threads, and up to 0.5 % of each processor for stacks. The kernel times that for root, and for others after
sysctl kernel.bpf_stats_enabled=1; where it does not, it comes on top of --max-cpu, and the log says so. A lower rate
does not make switches cheaper: where they alone take more than --max-cpu, the agent samples at 1 Hz and says that, too.

--tick samples at the scheduler's own tick and programs no timer. That costs next to nothing, but does not
see what is in step with the tick. Such samples are never mixed with others.

` + configHelp + ` SIGHUP
makes the agent write what it has, read the file again and go on by it:

    agent:
      max-cpu: 0.5%
      retain: 30d
      label: {role: web}`,
	examples: `backfeed agent --store /var/lib/backfeed --max-cpu 1% --retain 30d
backfeed agent --config /etc/backfeed.yaml
backfeed agent --systemd-unit >/etc/systemd/system/backfeed.service`,
	run: runAgent,
}

//go:embed backfeed.service
var systemdUnit string

func runAgent(c *cli, args []string) error {
	f, err := c.parseAgent(args)
	if err != nil || f == nil {
		return err
	}
	// On more processors the Go scheduler wakes others for work that one does: at
	// 997 Hz the agent then takes 0.38 % of a core, and 0.30 % on one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	a, err := c.openAgent(f, 0)
	for err == nil {
		log := f.logger(c.stderr)
		if sig := a.Run(signals); sig != syscall.SIGHUP {
			log.Info("told to end", "signal", sig.String())
			return a.Close()
		}
		next, bad := c.parseAgent(args)
		if bad != nil {
			log.Error("the old flags stay; correct them and send SIGHUP again", "error", bad)
			continue
		}
		log.Info("flags read again")
		a.Close() // which has logged what went wrong
		used := collect.ProcessorTime()
		if a, err = c.openAgent(next, used); err != nil {
			log.Error("the old flags come back; correct the new ones and send SIGHUP again", "error", err)
			a, err = c.openAgent(f, used)
		} else {
			f = next
		}
	}
	return err
}

// openAgent starts to sample. What this process used before is not its cost.
func (c *cli) openAgent(f *agentFlags, used time.Duration) (*agent.Agent, error) {
	opt, err := c.agentOptions(f, used)
	if err != nil {
		return nil, err
	}
	return agent.Open(opt)
}

// agentOptions makes options of the flags; it opens the log of the calibration.
func (c *cli) agentOptions(f *agentFlags, used time.Duration) (agent.Options, error) {
	cal, err := f.calibrate.options(nil, nil, report.Style{})
	return agent.Options{
		Store: f.store, Spool: f.spool, System: f.what.options(), MaxCPU: float64(f.maxCPU), Calibrate: cal, Labels: f.labels, HashPaths: f.hashPaths, Epoch: f.epoch, Flush: f.flush,
		Keep: agent.Keep(f.keepImages.Value), MaxImage: int64(f.maxImage), Retain: f.retain.of(), Metrics: f.metrics, Public: f.public,
		Log: f.logger(c.stderr), Without: c.verifierLog, Used: used,
	}, err
}

// logger writes what is worth the level that was asked for.
func (f *agentFlags) logger(w io.Writer) *slog.Logger { return leveled(w, f.level) }
