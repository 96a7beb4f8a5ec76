package main

import (
	"context"
	"log"
	"os"
	"os/exec"
	"time"
)

func main() {
	log.SetFlags(0)
	tmp := os.TempDir()
	for _, k := range kernels {
		if len(os.Args) > 1 && os.Args[1] != k.String() {
			continue
		}
		f, err := k.fetch(context.Background(), "/root/.cache/backfeed/kernels", false)
		if err != nil {
			log.Fatal(err)
		}
		build := func(out string, args ...string) {
			cmd := exec.Command("go", append([]string{"build", "-o", out}, args...)...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+k.arch)
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				log.Fatal(err)
			}
		}
		build(tmp+"/init", "./guest")
		build(tmp+"/bf", "../../cmd/backfeed")
		c := files{}
		c.add("init", tmp+"/init")
		c.add("bin/backfeed", tmp+"/bf")
		c.add("bin/busybox", f.busybox)
		t := time.Now()
		_, err = f.run(context.Background(), c, []job{
			{Name: "doctor", Args: []string{"/bin/backfeed", "doctor"}, Seconds: 60},
			{Name: "record", Args: []string{"/bin/sh", "-c", "backfeed record -o /tmp/x -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'"}, Seconds: 60},
			{Name: "record nobody", UID: 65534, Args: []string{"/bin/sh", "-c", "backfeed record -o /tmp/y -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'"}, Seconds: 60},
			{Name: "record -a", Args: []string{"/bin/sh", "-c", "(while :; do :; done)& backfeed record -a -d 2s -o /tmp/x"}, Seconds: 60},
		}, nil, os.Stdout)
		log.Println(k, time.Since(t), err)
	}
}
