// Lua calls a function of a Lua script many times: a Go program that is not ours,
// for measure.sh of goldmark. With a third argument it writes runtime/pprof's profile
// of itself.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: lua SCRIPT TIMES [PROFILE]")
		os.Exit(2)
	}
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	l := lua.NewState()
	defer l.Close()
	check(l.DoFile(os.Args[1]))
	if len(os.Args) > 3 {
		f, err := os.Create(os.Args[3])
		check(err)
		defer f.Close()
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	var sum lua.LNumber
	for range times {
		check(l.CallByParam(lua.P{Fn: l.GetGlobal("work"), NRet: 1, Protect: true}))
		sum += l.Get(-1).(lua.LNumber)
		l.Pop(1)
	}
	fmt.Println(sum)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
