package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/receive"
)

var receiveCmd = &command{
	name: "receive", args: "[--store DIR] [--grpc HOST:PORT] [--http HOST:PORT]", short: "take the profiles that OpenTelemetry's profilers and collectors send into a store",
	long: `receive is an end of OpenTelemetry's protocol for profiles (OTLP), by gRPC and by HTTP at ` + receive.HTTPPath + `: where the
exporter of a collector, or the eBPF profiler itself, sends to. It runs until SIGTERM or an interrupt, and then writes
what it has. Emit, infer and all else then read the store.

Samples are gathered in memory and written every --flush; kill -9 loses at most that. What is written
is merged by --epoch, by when it arrived: clocks of hosts may be wrong. While the store takes nothing, for want of space
say, senders are told to try again later.

It listens where only this machine can connect, unless it is told otherwise, and knows neither TLS nor passwords: put a
collector in front of it, or a network that is trusted. Who can connect decides what builds are made by.`,
	examples: `backfeed receive --store /var/lib/backfeed --retain 30d
backfeed receive --grpc 0.0.0.0:4317 --http '' --metrics localhost:9464
backfeed emit go /var/lib/backfeed --since 7d -o default.pgo`,
	run: runReceive,
}

func runReceive(c *cli, args []string) error {
	fs := c.flags()
	var opt receive.Options
	var retain retention
	most := flagset.Size(receive.DefaultMaxMessage)
	fs.StringVar(&opt.Store, "store", defaultStore, "write to the store in `dir`")
	fs.StringVar(&opt.GRPC, "grpc", receive.DefaultGRPC, "listen for gRPC at `host:port`; port 0 is a free one, and nothing is no gRPC")
	fs.StringVar(&opt.HTTP, "http", receive.DefaultHTTP, "listen for HTTP at `host:port`; port 0 is a free one, and nothing is no HTTP")
	fs.Var(&most, "max-message", "take no message that is larger, as it is sent or unpacked")
	fs.StringToStringVar(&opt.Labels, "label", nil, "mark what is received with `name=value`")
	fs.DurationVar(&opt.Epoch, "epoch", time.Hour, "merge what was received in each `duration`")
	fs.DurationVar(&opt.Flush, "flush", 5*time.Minute, "write a segment every `duration`")
	retain.define(fs)
	fs.StringVar(&opt.Metrics, "metrics", "", "tell Prometheus of the receiver itself at http://`host:port`/metrics")
	fs.BoolVar(&opt.Public, "metrics-public", false, "let --metrics listen where other machines can connect")
	level := c.choice("log-level", "what to log", "info", "debug", "warn", "error")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return c.usage(err)
	}
	switch {
	case opt.Epoch < time.Minute:
		return c.usage(fmt.Errorf("--epoch %v: want a minute at least", opt.Epoch))
	case opt.Flush < time.Second:
		return c.usage(fmt.Errorf("--flush %v: want a second at least", opt.Flush))
	case most < 1<<10 || most > 1<<30:
		return c.usage(fmt.Errorf("--max-message %s: want 1k to 1g", most.String()))
	case opt.Metrics == "":
		if err := fs.Refuse("it goes with --metrics", "metrics-public"); err != nil {
			return c.usage(err)
		}
	}
	opt.MaxMessage, opt.Retain, opt.Log = int64(most), retain.of(), leveled(c.stderr, level)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	r, err := receive.Open(opt)
	if err != nil {
		return err
	}
	sig := r.Run(signals)
	opt.Log.Info("told to end", "signal", sig.String())
	return r.Close()
}

// leveled writes what is worth that level.
func leveled(w io.Writer, word *flagset.Choice) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(word.Value)) // one of the words of the flag
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
