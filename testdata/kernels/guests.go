package main

import "slices"

// A guest is a kernel and the machine that it boots on.
type guest struct {
	kernel
	variant string   // "" is the usual machine
	qemu    []string // arguments beside the machine's
	boot    string   // likewise, of the kernel
}

func (g guest) String() string {
	if g.variant == "" {
		return g.kernel.String()
	}
	return g.kernel.String() + "-" + g.variant
}

// counted has the guest's clock advance with the instructions that it executes: the emulated counters
// then count in exact proportion, and nothing depends on the load of the host. Where the guest has nothing to do,
// its clock goes to the next timer at once, and nobody waits.
var counted = []string{"-icount", "shift=0,sleep=off"}

// counted reports whether the guest's clock goes by instructions.
func (g guest) counted() bool { return slices.Contains(g.qemu, counted[0]) }

// What clocks go by.
const (
	byTime         = "time"
	byInstructions = "instructions"
)

func (g guest) clock() string {
	if g.counted() {
		return byInstructions
	}
	return byTime
}

// guests are Debian 11 to 13, which most servers run, and the newest kernel there is. The processor of the
// AArch64 machine has a PMU.
var guests = []guest{
	{kernel{"sid", "", "amd64"}, "", nil, ""}, // those that take longest are first
	{kernel{"trixie", "6.12", "arm64"}, "", counted, ""},
	{kernel{"bookworm", "6.1", "amd64"}, "", nil, ""},
	{kernel{"bookworm", "6.1", "arm64"}, "", counted, ""},
	{kernel{"bullseye", "5.10", "amd64"}, "", nil, ""},
	{kernel{"trixie", "6.12", "amd64"}, "", nil, ""},
	{kernel{"trixie", "6.12", "arm64"}, "time", nil, ""},
	// No high-resolution timers. One processor: two take turns, and each would miss the ticks of the other's.
	{kernel{"trixie", "6.12", "amd64"}, "ticks", append([]string{"-smp", "1"}, counted...), "highres=off"},
}

const nobody = 65534

// aside are tests that need a compiler, or measure what an emulated processor tells nothing of: how fast it
// is, where in the code its interrupts fall, how long a program stands, and how long it takes to start.
const aside = "^(TestMeasure.*|TestFollowSpeed|TestFollowBudget|TestPrograms|TestGenerate|TestCallers|TestRecordRate|TestRecordCommand)$"

// asideOn are more of them, by processor. TestWalkOps compares with one: of x86-64, QEMU 7.2 has the carry of BLSI
// wrong (its issue 1370).
var asideOn = map[string]string{"amd64": "|^TestWalkOps$"}

// live are the tests of package collect that ask something of the kernel. Not among them are those of what
// probes count: which instructions the kernel emulates is told by what a hit costs, and on an emulated processor
// anything may cost much. TestFeatures has a window of probes.
const live = "^(TestFilter.*|TestFollow.*|TestRecord.*|TestReplacedBinary|TestAttach|TestCancel|TestTraces|TestBranchProgram|TestHeld.*|TestProbePrivileges|TestSums|TestFull|TestChurn|TestHotPlug|TestEvents|TestSetFrequency|TestWithout|TestObserve|TestKernelMemory)$"

// A set is some tests of one package, and the guests that run them. To have a live test run in guests, name
// it here; what it needs of built programs goes into the table of programs of its package.
type set struct {
	name    string
	pkg     string             // of dirs
	run     string             // tests, as for go test -run
	uid     uint32             // 0 is root
	sysctl  string             // a setting before, as "kernel.x=1"; "" is none
	seconds int                // that it may take
	on      func(g guest) bool // nil is all guests
}

// sets are what guests run, in order. Features, stacks and waits are tried on each kernel; the other tests take longer,
// and run where they tell most: those of commands on the kernel of Debian 12, which most servers run, those of
// package collect on the oldest and on the newest, and what reads the kernel's code on the oldest and on the newest of
// each processor. trixie-arm64-time has the kernel of trixie-arm64, and runs what another clock may make another: counters,
// and what is timed.
var sets = []set{
	// Before anything samples by a counter: when the interrupts of counters take long there, the kernel lowers the rate
	// of all sampling for good.
	{name: "walks on AArch64", pkg: "cmd", run: "^TestWalkOps$", seconds: 480, on: only("trixie-arm64")},
	// Next: after the features, cycles were once not counted by the counter of cycles, and QEMU notices an overflow
	// of the others too late (see README.md).
	{name: "counters as root", pkg: "collect", run: "^TestCounter", seconds: 480, on: only("trixie-arm64")},
	{name: "counts as root", pkg: "cmd", run: "^TestCounterCounts$", seconds: 240, on: only("trixie-arm64")},
	{name: "features as root", pkg: "cmd", run: "^TestFeatures$", seconds: 480, on: ownKernel},
	{name: "features as user", pkg: "cmd", run: "^TestFeatures$", uid: nobody, seconds: 300, on: ownKernel},
	{name: "features by time as root", pkg: "cmd", run: "^TestFeatures$/^(own-processes|ptrace|tick|hardware-counters)$", seconds: 480, on: only("trixie-arm64-time")},
	{name: "features as user, paranoid 2", pkg: "cmd", run: "^TestFeatures$/^(own-processes|hardware-counters)$", uid: nobody, sysctl: "kernel.perf_event_paranoid=2", seconds: 120, on: highRes},
	{name: "the kernel's code", pkg: "cmd", run: "^TestKernelCode$", seconds: 480, on: only("bullseye-amd64", "sid-amd64", "bookworm-arm64", "trixie-arm64")},
	{name: "stacks as root", pkg: "cmd", run: "^(TestUnwind|TestUnwindCopied)$", seconds: 480, on: ownKernel},
	{name: "waits as root", pkg: "cmd", run: "^(TestOffCPU|TestOffCPUOften|TestOffCPUAsleep|TestThirds)$", seconds: 480, on: ownKernel},
	{name: "without privilege", pkg: "collect", run: "^(TestWithoutPrivilege|TestFollow.*)$", uid: nobody, seconds: 480, on: only("bookworm-amd64", "trixie-arm64-time")},
	{name: "collect as root", pkg: "collect", run: live, sysctl: "kernel.perf_event_paranoid=2", seconds: 600, on: only("sid-amd64", "bullseye-amd64")},
	{name: "cmd as root", pkg: "cmd", run: "^(TestAgent|TestRecordSystem|TestRecord|TestRecordToStdout|TestRecordChosen|TestCalibrate.*|TestAgentCalibrate|TestWalk.*|TestDoctor)$", seconds: 540, on: only("bookworm-amd64")},
	{name: "following and page faults on AArch64", pkg: "collect", run: "^(TestFollow.*|TestRecordFaults.*)$", sysctl: "kernel.perf_event_paranoid=2", seconds: 300, on: only("trixie-arm64-time")},
	{name: "the link register", pkg: "collect", run: "^TestRecordTop$", sysctl: "kernel.perf_event_paranoid=2", seconds: 120, on: only("trixie-arm64-time")},
	{name: "samples at ticks", pkg: "collect", run: "^TestTimerStepTime$", sysctl: "kernel.perf_event_paranoid=2", seconds: 120, on: only("trixie-amd64-ticks")},
	{name: "probes on AArch64", pkg: "collect", run: "^(TestProberTrial|TestProbeCounts|TestProbeCountsOf)$", seconds: 240, on: only("trixie-arm64")},
}

// ownKernel leaves out guests that have the kernel of another one.
func ownKernel(g guest) bool { return g.variant == "" }

// highRes leaves out the guest without high-resolution timers.
func highRes(g guest) bool { return g.variant != "ticks" }

// only is those guests alone.
func only(names ...string) func(guest) bool {
	return func(g guest) bool { return slices.Contains(names, g.String()) }
}

// jobsOf lists what a guest runs.
func jobsOf(g guest) (jobs []job) {
	for _, s := range sets {
		if s.on != nil && !s.on(g) {
			continue
		}
		j := job{
			Name: s.name, Args: []string{"/test/" + s.pkg + ".test", "-test.v", "-test.timeout=15m", "-test.run", s.run, "-test.skip", aside + asideOn[g.arch]},
			Dir: "/src/" + dirs[s.pkg], Env: []string{"BACKFEED_TEST_PROGRAMS=/programs/" + s.pkg}, UID: s.uid, Sysctl: s.sysctl, Seconds: s.seconds,
		}
		if g.arch == "arm64" { // whose emulated processor has a PMU
			j.Env = append(j.Env, "BACKFEED_TEST_NEEDS=hardware counters")
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// dirs are the packages whose tests run in guests.
var dirs = map[string]string{"collect": "sample/collect", "cmd": "cmd/backfeed"}
