package main

// A guest is a kernel and the machine that it boots on.
type guest struct {
	kernel
	variant string   // "" is the usual machine
	qemu    []string // arguments beside the machine's
}

func (g guest) String() string {
	if g.variant == "" {
		return g.kernel.String()
	}
	return g.kernel.String() + "-" + g.variant
}

// counted has the guest's clock advance with the instructions that it executes: the emulated counters
// then count in exact proportion, and nothing depends on the load of the host.
var counted = []string{"-icount", "shift=0"}

// guests are Debian 11 to 13, which most servers run, and the newest kernel there is. The processor of the
// AArch64 machine has a PMU.
var guests = []guest{
	{kernel{"trixie", "6.12", "arm64"}, "", counted},
	{kernel{"bookworm", "6.1", "amd64"}, "", nil},
	{kernel{"trixie", "6.12", "amd64"}, "", nil},
	{kernel{"bookworm", "6.1", "arm64"}, "", counted},
	{kernel{"sid", "", "amd64"}, "", nil},
	{kernel{"trixie", "6.12", "arm64"}, "time", nil},
	{kernel{"bullseye", "5.10", "amd64"}, "", nil},
}

const nobody = 65534

// aside are tests that need a compiler or measure.
const aside = "^(TestMeasure.*|TestPrograms|TestGenerate)$"

// jobsOf lists what a guest runs. Tests that a package's own table of features refuses on the guest's
// kernel skip, and say which kernel they need.
func jobsOf(g guest) []job {
	test := func(name, pkg, run string, uid uint32, seconds int) job {
		return job{
			Name: name, Args: []string{"/test/" + pkg + ".test", "-test.v", "-test.short", "-test.timeout=5m", "-test.run", run, "-test.skip", aside},
			Dir: "/src/" + dirs[pkg], Env: []string{"BACKFEED_TEST_PROGRAMS=/programs/" + pkg}, UID: uid, Seconds: seconds,
		}
	}
	return []job{
		test("features as root", "cmd", "^TestFeatures$", 0, 120),
		test("features as user", "cmd", "^TestFeatures$", nobody, 120),
		test("collect as root", "collect", ".", 0, 300),
		test("cmd as root", "cmd", "^(TestAgent|TestRecordSystem|TestRecord|TestRecordToStdout|TestRecordChosen|TestCalibrate|TestAgentCalibrate|TestWalk.*|TestCallers|TestDoctor)$", 0, 300),
	}
}

// dirs are the packages whose tests run in guests.
var dirs = map[string]string{"collect": "sample/collect", "cmd": "cmd/backfeed"}
