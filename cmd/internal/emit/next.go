package emit

import (
	"path/filepath"

	"backfeed/cmd/internal/prose"
)

// GoBuild is the command that builds package main of that path with a profile.
func GoBuild(profile, main string) string {
	if main == "" || main == "command-line-arguments" { // of files that were named
		main = "."
	}
	command := "go build -pgo=" + prose.ShellWord(profile) + " " + main
	if filepath.Base(profile) == "default.pgo" {
		command += "; in the directory of package main, go build finds default.pgo by itself"
	}
	return command
}

// LLVMBuild is the command that builds with a sample profile, by rustc if that made most of what ran. LLVM can infer
// counts of blocks from those of lines by the algorithm profi, without which programs in Rust keep most of their taken branches.
func LLVMBuild(profile string, rust bool) string {
	if rust {
		return "rustc -Zprofile-sample-use=" + prose.ShellWord(profile) + " -Cllvm-args=-sample-profile-use-profi, with the same sources and options as the recorded build, and the profile by its absolute path"
	}
	return "clang -fprofile-sample-use=" + prose.ShellWord(profile) + ", with the same sources and options as the recorded build"
}

// NextSteps are the commands that read the profiles, by format: what the file is to be put into, and what must hold.
var NextSteps = map[string]string{
	"gcc":  "gcc -fauto-profile=%s, with the same sources and options as the recorded build",
	"bolt": "llvm-bolt APP -o APP.bolt -data=%s -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions, with APP linked by -Wl,--emit-relocs",
}

// NextLinks says by target of layout how to link with its file: the command, and what must hold.
var NextLinks = map[string]string{
	"lld":       "clang -ffunction-sections -fuse-ld=lld -Wl,--symbol-ordering-file=%s, with the same sources and options as the recorded build",
	"gold":      "gcc -ffunction-sections -fuse-ld=gold -Wl,--section-ordering-file=%s, with the same sources and options as the recorded build",
	"ld":        "gcc -ffunction-sections -Wl,--section-ordering-file=%s, with the same sources and options as the recorded build, and GNU ld 2.43 or later",
	"ld-script": "gcc -ffunction-sections -Wl,-T,%s, with the same sources and options as the recorded build",
	"bolt":      "llvm-bolt APP -o APP.bolt -data=FDATA -reorder-blocks=ext-tsp -reorder-functions=user -function-order=%s, with APP linked by -Wl,--emit-relocs and FDATA of emit bolt",
}
