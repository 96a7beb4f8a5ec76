package emit

import (
	"fmt"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/prose"
	"backfeed/infer"
	"backfeed/infer/image"
)

// GoBuild is the command that builds package main of that path, or tests, with a profile.
func GoBuild(profile, main string) string {
	main, isTest := goPackage(main)
	if isTest { // go test finds no default.pgo but that of package main
		return "go test -pgo=" + prose.ShellWord(profile) + " -bench . " + main + "; for a program that uses the package, record the program"
	}
	command := "go build -pgo=" + prose.ShellWord(profile) + " " + main
	if filepath.Base(profile) == "default.pgo" {
		command += "; in the directory of package main, go build finds default.pgo by itself"
	}
	return command
}

// goPackage returns what the go command calls the package that a program was built of, and whether its tests are the program.
func goPackage(main string) (name string, isTest bool) {
	name, isTest = strings.CutSuffix(main, ".test")
	if name == "" || name == "command-line-arguments" { // of files that were named
		name = "."
	}
	return name, isTest
}

// GoMeasure is the command that measures what a profile in a file brings to the program that was built as file from package main of that path.
func GoMeasure(profile, file, main string) string {
	main, isTest := goPackage(main)
	if isTest {
		bench := "go test -bench . -count 10 "
		return bench + main + " >old.txt; " + bench + "-pgo=" + prose.ShellWord(profile) + " " + main + " >new.txt; backfeed verdict old.txt new.txt"
	}
	return "backfeed optimize --build " + prose.ShellWord("go build {flags} -o {binary} "+main) + " --compiler go -o " + prose.ShellWord(filepath.Base(file)+".fast") + " -- {binary} ARGS"
}

// AsRecorded is what must hold of a build with a profile or an order.
const AsRecorded = ", with the same sources and options as the recorded build"

// forCargo is what must hold of a file that rustc is told of, besides: cargo runs it in the directory of each crate.
func forCargo(what, file string) string {
	if filepath.IsAbs(file) {
		return ""
	}
	return ", and the " + what + " by its absolute path"
}

// LLVMBuild is the command that builds with a sample profile, by rustc if that made most of what ran. LLVM can infer
// counts of blocks from those of lines by the algorithm profi, without which programs in Rust keep most of their taken branches.
func LLVMBuild(profile string, rust bool) string {
	if rust {
		return "rustc -Zprofile-sample-use=" + prose.ShellWord(profile) + " -Cllvm-args=-sample-profile-use-profi" + AsRecorded + forCargo("profile", profile)
	}
	return "clang -fprofile-sample-use=" + prose.ShellWord(profile) + AsRecorded
}

// NoTracer goes with -fauto-profile, which has gcc copy the ends of likely paths (-ftracer). Where counts of lines say nothing of a branch, the copies keep gcc
// from making a choice of it, without a branch: on Redis, that was more taken branches than all of the profile took off (testdata/consumers).
const NoTracer = "-fno-tracer"

// GCCBuild is the command that builds with an .afdo profile.
func GCCBuild(profile string) string {
	return "gcc -fauto-profile=" + prose.ShellWord(profile) + " " + NoTracer + AsRecorded
}

// BOLTRewrite is the command that rewrites the file program, which im is of, with a profile for llvm-bolt.
func BOLTRewrite(profile, program string, im *image.Image) string {
	command := bolt(profile, program)
	switch {
	case im.KeepsRelocations() && im.KeepsSymbols():
		return command + " -reorder-functions=cdsort"
	case !im.KeepsSymbols():
		return command + unstripped
	}
	return command + "; linked with -Wl,--emit-relocs, which the program was not, it orders functions too: -reorder-functions=cdsort"
}

// BOLTReorder is the command that rewrites it with an order of its functions, and a profile that is still to be written.
func BOLTReorder(order, program string, im *image.Image) string {
	command := bolt("FDATA", program) + " -reorder-functions=user -function-order=" + prose.ShellWord(order) + ", with FDATA of emit bolt"
	switch {
	case !im.KeepsSymbols():
		return command + unstripped
	case !im.KeepsRelocations():
		command += ", and the program linked with -Wl,--emit-relocs, as it was not"
	}
	return command
}

// unstripped says what to do about a program without symbols, which llvm-bolt refuses (--allow-stripped is for those who know better).
const unstripped = ", with the program as it was before it was stripped, linked with -Wl,--emit-relocs: llvm-bolt refuses stripped ones"

func bolt(profile, program string) string {
	return fmt.Sprintf("llvm-bolt %s -o %s -data=%s -reorder-blocks=ext-tsp -split-functions", prose.ShellWord(program), prose.ShellWord(filepath.Base(program)+".bolt"), prose.ShellWord(profile))
}

// links are, by linker that layout writes for, what makes the compiler driver link with its file, and what must hold besides.
var links = map[string]struct{ linker, option, must string }{
	"lld":       {"-fuse-ld=lld", "-Wl,--symbol-ordering-file=", ""},
	"gold":      {"-fuse-ld=gold", "-Wl,--section-ordering-file=", ""},
	"ld":        {"", "-Wl,--section-ordering-file=", ", and GNU ld 2.43 or later"},
	"ld-script": {"", "-Wl,-T,", ""},
}

// LinkBy are the options that have a compiler link by a linker that layout writes for. rustc has lld where it is told nothing, since 1.90.
func LinkBy(linker string, rust bool) []string {
	switch option := links[linker].linker; {
	case option != "":
		return []string{option}
	case rust:
		return []string{"-fuse-ld=bfd"}
	}
	return nil
}

// OrderOption is the option by which that linker reads an order.
func OrderOption(linker, order string) string { return links[linker].option + order }

// LinkBuild is the command that links with an order for a linker that layout writes for, by rustc if that made most of what ran.
func LinkBuild(linker, order string, rust bool) string {
	l := links[linker]
	words := []string{"gcc -ffunction-sections"}
	switch {
	case rust: // which puts each function into a section of its own
		words = []string{"rustc"}
	case linker == "lld":
		words = []string{"clang -ffunction-sections"}
	}
	for _, option := range append(LinkBy(linker, rust), OrderOption(linker, prose.ShellWord(order))) {
		if rust {
			option = "-Clink-arg=" + option
		}
		words = append(words, option)
	}
	command := strings.Join(words, " ") + AsRecorded + l.must
	if rust {
		command += forCargo("order", order)
	}
	return command
}

// MadeByRust reports whether rustc made most of what ran of an image.
func MadeByRust(ip *infer.ImageProfile) bool { return rustFirst(compilers(ip)) }

func rustFirst(of []Compiler) bool { return len(of) > 0 && of[0].Lang == "rust" }
