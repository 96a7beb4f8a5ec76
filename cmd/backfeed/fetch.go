package main

import (
	"context"
	"os"
	"path/filepath"

	"backfeed/cmd/internal/refresh"
)

var fetchCmd = &command{
	name: "fetch", args: "[OUTPUT...] [--lock FILE] [--store DIR|URL] [--offline]", short: "bring the profiles that a lock pins",
	long: `refresh writes profiles of mode pin into a store, and their SHA-256 into the lock, backfeed.lock. fetch brings those
that the lock has to their paths, before a build: OUTPUT is such a path, and all are meant without one. With the name of
an output, one of mode commit can be had from --store too.

Each is verified by its SHA-256 and kept in the user's cache. One that is there already stays. --offline asks no
server. As of other files, the exit code is 1 if one is not there, and 4 if it is not what the lock pins.`,
	examples: `backfeed fetch
backfeed fetch --store https://profiles.example.com/api
backfeed fetch prof/api.prof --offline`,
	run: runFetch,
}

func runFetch(c *cli, args []string) error {
	fs := c.flags()
	opt := refresh.FetchOptions{Notify: notices{c}}
	lock := fs.String("lock", "backfeed.lock", "bring what `file` pins")
	fs.StringVar(&opt.Store, "store", "", "bring them from `dir`, or from the URL of one (default: where the lock says)")
	fs.BoolVar(&opt.Offline, "offline", false, "ask no server: what is not in the cache or in a directory fails")
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	opt.Paths = fs.Args()
	if dir, err := os.UserCacheDir(); err == nil {
		opt.Cache = filepath.Join(dir, "backfeed", "profiles")
	}
	return refresh.Fetch(context.Background(), *lock, opt)
}
