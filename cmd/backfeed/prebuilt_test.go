package main

import (
	"debug/elf"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/testdata/qemu"
)

// programs are those that tests on a live machine run.
var programs = testtool.Programs{Dir: ".", List: []testtool.Program{
	{Name: "busy", Command: "go build ../../sample/collect/testdata/busy.go"},
	{Name: "callers", Command: "go build -buildmode=exe ../../testdata/callers"},
	{Name: "mix", Command: "cc -O2 -Wl,--build-id ../../testdata/mix/mix.c", Only: "arm64"},
	{Name: "deep", Command: "cc -O2 -fomit-frame-pointer -Wl,--build-id testdata/deep.c", Only: "amd64"},
	{Name: "deep", Command: "cc -O2 -fomit-frame-pointer -mbranch-protection=pac-ret -Wl,--build-id testdata/deep.c", Only: "arm64"},
	{Name: "deepdebug", Command: "cc -O2 -g -fomit-frame-pointer -fno-asynchronous-unwind-tables -Wl,--build-id testdata/deep.c"},
	{Name: "waits", Command: "cc -O2 -fomit-frame-pointer -pthread -Wl,--build-id testdata/waits.c", Only: "amd64"},
	{Name: "waits", Command: "cc -O2 -fno-omit-frame-pointer -pthread -Wl,--build-id testdata/waits.c", Only: "arm64"}, // emulated, it may wait for rows longer than it runs
	{Name: "branches", Command: "cc -O1 -g -no-pie -Wl,--build-id testdata/branches.c"},
	{Name: "walkops", Command: "cc -O1 -pie -fPIE -mno-red-zone -Wl,--build-id testdata/walkops.c", Only: "amd64", Here: true}, // gcc takes 10 s
	{Name: "walkops", Command: "cc -O1 -pie -fPIE -Wl,--build-id testdata/walkops.c", Only: "arm64"},
}}

// mixTruth is the file of the exact counts of one round of program mix, beside it.
const mixTruth = "mix.truth.json"

// program builds one of the programs for this test alone.
func program(t *testing.T, name string) (file string) {
	t.Helper()
	return programs.Build(t, name)
}

// TestPrograms builds all the programs, for tests that run where nothing can be built.
func TestPrograms(t *testing.T) {
	programs.Fill(t, func(t *testing.T, name, file string) {
		if name == "mix" {
			qemu.NeedCount(t, elf.EM_AARCH64)
			truth, _ := qemu.Count(t, filepath.Dir(file), file, "1")
			testtool.Write(t, filepath.Dir(file), mixTruth, testtool.Read(t, truth))
		}
	})
}
