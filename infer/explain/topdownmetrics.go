package explain

import "backfeed/sample"

// A metric is one share of the top-down method by its maker's formula.
type metric struct {
	name, parent string   // as published; of level 1, parent is ""
	formulas     []string // the first is the published one; others need fewer events. The first whose events there are counts
	of           string   // what it is a share of
	high         float64  // above this it is worth looking at; 0 is where nothing is published
	alone        bool     // that holds whatever the parent is
	next         string   // what to do, if it is high
}

// What metrics are shares of.
const (
	ofSlots  = "slots"  // places for operations in the pipeline: cycles times how many it can take in one
	ofCycles = "cycles" // of the thread
	ofStalls = "stalls" // cycles in which the parent's part of the pipeline stalls

	// Ratios that are no part of their parent, but say what to look into.
	ofBranches     = "branches"
	ofAccesses     = "accesses"     // to a cache
	ofTranslations = "translations" // of addresses
)

// A family is the metrics of processors of one kind.
type family struct {
	title   string   // the processors
	source  string   // who published the formulas, and in what version
	models  []string // machine models
	group   []string // events that cannot be sampled, and are read with each sample of cycles; the first leads their group
	metrics []metric
	slots   int // in a cycle
}

// What to do about shares whose definition all makers have in common.
const (
	nextRetiring    = "The pipeline is busy with useful work: do less of it, by a better algorithm, vector instructions or what the compiler can leave out."
	nextHeavy       = "Look for instructions that are made of many operations (backfeed list): divisions, string and system instructions."
	nextLight       = "Instructions are simple ones: use vector instructions, or have the compiler inline and unroll what runs most."
	nextMicrocode   = "Microcode runs: look for string, system and AVX-gather instructions, and for subnormal numbers (backfeed whatcg --cause microcode, fp-assist)."
	nextSpeculation = "Work is thrown away: see which of its parts is high."
	nextMispredict  = "Branches are mispredicted: backfeed whatcg --cause mispredict lists where; make them conditional moves, or sort what they depend on."
	nextClears      = "The pipeline is restarted for other reasons: memory order between threads, false sharing, code that changes itself."
	nextFrontEnd    = "Instructions come too slowly: build with profiles and an order of functions (backfeed optimize)."
	nextFetchLat    = "Fetching waits for code: bring hot code together (backfeed layout, emit bolt), or put it on huge pages."
	nextFetchBand   = "Code is decoded too slowly: look for long instructions, many taken jumps and loops that leave the cache of decoded operations."
	nextBackEnd     = "The pipeline waits for data or units: see which of its parts is high."
	nextMemory      = "Loads and stores wait: backfeed topstalls --cause dcache-miss lists where; keep what is used together together."
	nextCore        = "Units or results are waited for: backfeed list shows chains of results and busy units; break chains, or use vector instructions."
	nextDRAM        = "Data comes from memory: use less of it, in order, or prefetch; look at NUMA and at huge pages."
	nextL3          = "Data comes from the third cache: work on blocks that fit the second; look for data that several threads write."
	nextL2          = "Data comes from the second cache: work on blocks that fit the first."
	nextL1          = "The first cache has the data, yet loads wait: translations (huge pages), loads of what was just stored, split lines, locks."
	nextStore       = "Stores wait: write less, in order, and not what other threads use; look at translations."
	nextDivider     = "The divider is busy: backfeed whatcg --cause divider lists where; multiply by an inverse, or use smaller operands."
	nextSerial      = "Instructions that serialize are waited for: fences, locks, system instructions, pauses."
	nextITLB        = "Translations of code addresses are missed: put hot code together and on huge pages (backfeed layout --huge-pages)."
	nextDTLB        = "Translations of data addresses are waited for: use huge pages, and keep what is used together together."
	nextStalled     = "The pipeline waits for data or units: backfeed topstalls lists where, and the ratios below it say which caches miss."
	nextPorts       = "Too few units have work: break chains of results, unroll, use vector instructions."
)

// registers are the events of Intel's register PERF_METRICS, which perf reads and cannot sample (tools/perf/Documentation/topdown.txt
// of Linux 6.12, "Limits on Intel Ice Lake"). Their sum is all slots.
const (
	allRegisters = " ( topdown-fe-bound + topdown-bad-spec + topdown-retiring + topdown-be-bound ) "
	clocks       = " cpu_clk_unhalted.thread "
)

// intelLevel3 are parts of level 3 whose formulas Ice Lake and Golden Cove share.
var intelLevel3 = []metric{
	{name: "ICache Misses", parent: "Fetch Latency", formulas: []string{"icache_data.stalls /" + clocks}, of: ofCycles, high: 0.05, next: nextFetchLat},
	{name: "ITLB Misses", parent: "Fetch Latency", formulas: []string{"icache_tag.stalls /" + clocks}, of: ofCycles, high: 0.05, next: nextITLB},
	{name: "LCP", parent: "Fetch Latency", formulas: []string{"decode.lcp /" + clocks}, of: ofCycles, high: 0.05,
		next: "Prefixes change the length of instructions: avoid 16-bit constants."},
	{name: "DSB Switches", parent: "Fetch Latency", formulas: []string{"dsb2mite_switches.penalty_cycles /" + clocks}, of: ofCycles, high: 0.05, next: nextFetchBand},
	{name: "MITE", parent: "Fetch Bandwidth", formulas: []string{"( idq.mite_cycles_any - idq.mite_cycles_ok ) / cpu_clk_unhalted.distributed / 2"}, of: ofCycles, high: 0.1, next: nextFetchBand},
	{name: "DSB", parent: "Fetch Bandwidth", formulas: []string{"( idq.dsb_cycles_any - idq.dsb_cycles_ok ) / cpu_clk_unhalted.distributed / 2"}, of: ofCycles, high: 0.15, next: nextFetchBand},
	{name: "Store Bound", parent: "Memory Bound", formulas: []string{"exe_activity.bound_on_stores /" + clocks}, of: ofCycles, high: 0.2, next: nextStore},
}

// families have the published formulas and thresholds. Intel's are those of github.com/intel/perfmon, by its names, and so the
// same as perf's (tools/perf/pmu-events/arch/x86); shares of cores are taken as of threads where a formula asks whether
// the other thread of a core is on, which a recording does not tell.
var families = []family{
	{
		title: "Intel Golden Cove", source: "Intel TMA 5.2 (perfmon, SPR metrics 1.3)", models: []string{"intel-sapphirerapids"}, slots: 6,
		group: []string{"slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound", "topdown-heavy-ops",
			"topdown-br-mispredict", "topdown-fetch-lat", "topdown-mem-bound"},
		metrics: append([]metric{
			{name: "Retiring", formulas: []string{"topdown-retiring /" + allRegisters}, of: ofSlots, high: 0.7, next: nextRetiring},
			{name: "Bad Speculation", formulas: []string{"1 - ( Frontend_Bound + Backend_Bound + Retiring )"}, of: ofSlots, high: 0.15, next: nextSpeculation},
			{name: "Frontend Bound", formulas: []string{"topdown-fe-bound /" + allRegisters + "- int_misc.uop_dropping /" + allRegisters, "topdown-fe-bound /" + allRegisters},
				of: ofSlots, high: 0.15, next: nextFrontEnd},
			{name: "Backend Bound", formulas: []string{"topdown-be-bound /" + allRegisters}, of: ofSlots, high: 0.2, next: nextBackEnd},
			{name: "Light Operations", parent: "Retiring", formulas: []string{"Retiring - Heavy_Operations"}, of: ofSlots, high: 0.6, alone: true, next: nextLight},
			{name: "Heavy Operations", parent: "Retiring", formulas: []string{"topdown-heavy-ops /" + allRegisters}, of: ofSlots, high: 0.1, alone: true, next: nextHeavy},
			{name: "Microcode Sequencer", parent: "Heavy Operations", formulas: []string{"uops_retired.ms /" + allRegisters}, of: ofSlots, high: 0.05, next: nextMicrocode},
			{name: "Few Uops Instructions", parent: "Heavy Operations", formulas: []string{"Heavy_Operations - Microcode_Sequencer"}, of: ofSlots, high: 0.05, next: nextHeavy},
			{name: "Branch Mispredicts", parent: "Bad Speculation", formulas: []string{"topdown-br-mispredict /" + allRegisters}, of: ofSlots, high: 0.1, next: nextMispredict},
			{name: "Machine Clears", parent: "Bad Speculation", formulas: []string{"Bad_Speculation - Branch_Mispredicts"}, of: ofSlots, high: 0.1, next: nextClears},
			{name: "Fetch Latency", parent: "Frontend Bound",
				formulas: []string{"topdown-fetch-lat /" + allRegisters + "- int_misc.uop_dropping /" + allRegisters, "topdown-fetch-lat /" + allRegisters}, of: ofSlots, high: 0.1, next: nextFetchLat},
			{name: "Branch Resteers", parent: "Fetch Latency", formulas: []string{"int_misc.clear_resteer_cycles /" + clocks + "+ int_misc.unknown_branch_cycles /" + clocks}, of: ofCycles, high: 0.05, next: nextMispredict},
			{name: "Fetch Bandwidth", parent: "Frontend Bound", formulas: []string{"Frontend_Bound - Fetch_Latency"}, of: ofSlots, high: 0.2, alone: true, next: nextFetchBand},
			{name: "Memory Bound", parent: "Backend Bound", formulas: []string{"topdown-mem-bound /" + allRegisters}, of: ofSlots, high: 0.2, next: nextMemory},
			{name: "L1 Bound", parent: "Memory Bound", formulas: []string{"( exe_activity.bound_on_loads - memory_activity.stalls_l1d_miss ) /" + clocks}, of: ofCycles, high: 0.1, next: nextL1},
			{name: "L2 Bound", parent: "Memory Bound", formulas: []string{"( memory_activity.stalls_l1d_miss - memory_activity.stalls_l2_miss ) /" + clocks}, of: ofCycles, high: 0.05, next: nextL2},
			{name: "L3 Bound", parent: "Memory Bound", formulas: []string{"( memory_activity.stalls_l2_miss - memory_activity.stalls_l3_miss ) /" + clocks}, of: ofCycles, high: 0.05, next: nextL3},
			// TMA 5.2 calls it L3 Miss Bound.
			{name: "DRAM Bound", parent: "Memory Bound", formulas: []string{"memory_activity.stalls_l3_miss /" + clocks}, of: ofCycles, high: 0.1, next: nextDRAM},
			{name: "Core Bound", parent: "Backend Bound", formulas: []string{"Backend_Bound - Memory_Bound"}, of: ofSlots, high: 0.1, next: nextCore},
			{name: "Divider", parent: "Core Bound", formulas: []string{"arith.div_active /" + clocks}, of: ofCycles, high: 0.2, next: nextDivider},
			{name: "Serializing Operation", parent: "Core Bound", formulas: []string{"resource_stalls.scoreboard /" + clocks + "+ cpu_clk_unhalted.c02 /" + clocks}, of: ofCycles, high: 0.1, next: nextSerial},
			{name: "Ports Utilization", parent: "Core Bound", formulas: []string{
				"( ( exe_activity.exe_bound_0_ports + max( rs.empty_resource - resource_stalls.scoreboard , 0 ) ) /" + clocks + "* ( cycle_activity.stalls_total - exe_activity.bound_on_loads )" +
					" + ( exe_activity.1_ports_util + Retiring * exe_activity.2_3_ports_util ) ) /" + clocks +
					"if arith.div_active < cycle_activity.stalls_total - exe_activity.bound_on_loads" +
					" else ( exe_activity.1_ports_util + Retiring * exe_activity.2_3_ports_util ) /" + clocks}, of: ofCycles, high: 0.15, next: nextPorts},
		}, intelLevel3...),
	},
	{
		title: "Intel Ice Lake", source: "Intel TMA 5.2 (perfmon, ICX metrics 1.2)", models: []string{"intel-icelake"}, slots: 5,
		group: []string{"slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"},
		metrics: append([]metric{
			{name: "Retiring", formulas: []string{"topdown-retiring /" + allRegisters}, of: ofSlots, high: 0.7, next: nextRetiring},
			{name: "Bad Speculation", formulas: []string{"1 - ( Frontend_Bound + Backend_Bound + Retiring )"}, of: ofSlots, high: 0.15, next: nextSpeculation},
			{name: "Frontend Bound", formulas: []string{"topdown-fe-bound /" + allRegisters + "- int_misc.uop_dropping /" + allRegisters, "topdown-fe-bound /" + allRegisters},
				of: ofSlots, high: 0.15, next: nextFrontEnd},
			{name: "Backend Bound", formulas: []string{"topdown-be-bound /" + allRegisters + "+ 5 * int_misc.clears_count /" + allRegisters, "topdown-be-bound /" + allRegisters},
				of: ofSlots, high: 0.2, next: nextBackEnd},
			{name: "Light Operations", parent: "Retiring", formulas: []string{"Retiring - Heavy_Operations"}, of: ofSlots, high: 0.6, alone: true, next: nextLight},
			{name: "Heavy Operations", parent: "Retiring", formulas: []string{"uops_retired.slots / uops_issued.any * idq.ms_uops /" + allRegisters +
				"+ Retiring * ( uops_decoded.dec0 - uops_decoded.dec0,cmask=1 ) / idq.mite_uops"}, of: ofSlots, high: 0.1, alone: true, next: nextHeavy},
			{name: "Microcode Sequencer", parent: "Heavy Operations", formulas: []string{"uops_retired.slots / uops_issued.any * idq.ms_uops /" + allRegisters}, of: ofSlots, high: 0.05, next: nextMicrocode},
			{name: "Few Uops Instructions", parent: "Heavy Operations", formulas: []string{"Heavy_Operations - Microcode_Sequencer"}, of: ofSlots, high: 0.05, next: nextHeavy},
			{name: "Branch Mispredicts", parent: "Bad Speculation", formulas: []string{"br_misp_retired.all_branches / ( br_misp_retired.all_branches + machine_clears.count ) * Bad_Speculation"}, of: ofSlots, high: 0.1, next: nextMispredict},
			{name: "Machine Clears", parent: "Bad Speculation", formulas: []string{"Bad_Speculation - Branch_Mispredicts"}, of: ofSlots, high: 0.1, next: nextClears},
			{name: "Fetch Latency", parent: "Frontend Bound", formulas: []string{"( 5 * idq_uops_not_delivered.cycles_0_uops_deliv.core - int_misc.uop_dropping ) /" + allRegisters}, of: ofSlots, high: 0.1, next: nextFetchLat},
			{name: "Branch Resteers", parent: "Fetch Latency", formulas: []string{"int_misc.clear_resteer_cycles /" + clocks + "+ 10 * baclears.any /" + clocks}, of: ofCycles, high: 0.05, next: nextMispredict},
			{name: "MS Switches", parent: "Fetch Latency", formulas: []string{"3 * idq.ms_switches /" + clocks}, of: ofCycles, high: 0.05, next: nextMicrocode},
			{name: "Fetch Bandwidth", parent: "Frontend Bound", formulas: []string{"Frontend_Bound - Fetch_Latency"}, of: ofSlots, high: 0.2, alone: true, next: nextFetchBand},
			{name: "Memory Bound", parent: "Backend Bound", formulas: []string{memoryBound}, of: ofSlots, high: 0.2, next: nextMemory},
			{name: "L1 Bound", parent: "Memory Bound", formulas: []string{"( cycle_activity.stalls_mem_any - cycle_activity.stalls_l1d_miss ) /" + clocks}, of: ofCycles, high: 0.1, next: nextL1},
			{name: "L2 Bound", parent: "Memory Bound", formulas: []string{l2Bound("l1d_pend_miss.fb_full_periods")}, of: ofCycles, high: 0.05, next: nextL2},
			{name: "L3 Bound", parent: "Memory Bound", formulas: []string{"( cycle_activity.stalls_l2_miss - cycle_activity.stalls_l3_miss ) /" + clocks}, of: ofCycles, high: 0.05, next: nextL3},
			{name: "DRAM Bound", parent: "Memory Bound", formulas: []string{dramBound}, of: ofCycles, high: 0.1, next: nextDRAM},
			{name: "Core Bound", parent: "Backend Bound", formulas: []string{"Backend_Bound - Memory_Bound"}, of: ofSlots, high: 0.1, next: nextCore},
			{name: "Divider", parent: "Core Bound", formulas: []string{"arith.divider_active /" + clocks}, of: ofCycles, high: 0.2, next: nextDivider},
			{name: "Serializing Operation", parent: "Core Bound", formulas: []string{"resource_stalls.scoreboard /" + clocks}, of: ofCycles, high: 0.1, next: nextSerial},
		}, intelLevel3...),
	},
	{
		title: "Intel Skylake", source: "Intel TMA 5.01 (perfmon, SKX metrics 1.0)", models: []string{"intel-skylake-x"}, slots: 4,
		metrics: []metric{
			{name: "Retiring", formulas: []string{"uops_retired.retire_slots / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.7, next: nextRetiring},
			{name: "Bad Speculation", formulas: []string{"( uops_issued.any - uops_retired.retire_slots + 4 * int_misc.recovery_cycles ) / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.15, next: nextSpeculation},
			{name: "Frontend Bound", formulas: []string{"idq_uops_not_delivered.core / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.15, next: nextFrontEnd},
			{name: "Backend Bound", formulas: []string{"1 - Frontend_Bound - ( uops_issued.any + 4 * int_misc.recovery_cycles ) / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.2, next: nextBackEnd},
			{name: "Light Operations", parent: "Retiring", formulas: []string{"Retiring - Heavy_Operations"}, of: ofSlots, high: 0.6, alone: true, next: nextLight},
			{name: "Heavy Operations", parent: "Retiring", formulas: []string{"( uops_retired.retire_slots + uops_retired.macro_fused - inst_retired.any ) / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.1, alone: true, next: nextHeavy},
			{name: "Microcode Sequencer", parent: "Heavy Operations", formulas: []string{"uops_retired.retire_slots / uops_issued.any * idq.ms_uops / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.05, next: nextMicrocode},
			{name: "Few Uops Instructions", parent: "Heavy Operations", formulas: []string{"Heavy_Operations - Microcode_Sequencer"}, of: ofSlots, high: 0.05, next: nextHeavy},
			{name: "Branch Mispredicts", parent: "Bad Speculation", formulas: []string{"br_misp_retired.all_branches / ( br_misp_retired.all_branches + machine_clears.count ) * Bad_Speculation"}, of: ofSlots, high: 0.1, next: nextMispredict},
			{name: "Machine Clears", parent: "Bad Speculation", formulas: []string{"Bad_Speculation - Branch_Mispredicts"}, of: ofSlots, high: 0.1, next: nextClears},
			{name: "Fetch Latency", parent: "Frontend Bound", formulas: []string{"4 * idq_uops_not_delivered.cycles_0_uops_deliv.core / ( 4 *" + clocks + ")"}, of: ofSlots, high: 0.1, next: nextFetchLat},
			{name: "ITLB Misses", parent: "Fetch Latency", formulas: []string{"icache_tag.stalls /" + clocks}, of: ofCycles, high: 0.05,
				next: "Translations of code addresses are missed: put hot code together and on huge pages (backfeed layout --huge-pages)."},
			{name: "Branch Resteers", parent: "Fetch Latency", formulas: []string{"int_misc.clear_resteer_cycles /" + clocks + "+ 9 * baclears.any /" + clocks}, of: ofCycles, high: 0.05, next: nextMispredict},
			{name: "MS Switches", parent: "Fetch Latency", formulas: []string{"2 * idq.ms_switches /" + clocks}, of: ofCycles, high: 0.05, next: nextMicrocode},
			{name: "DSB Switches", parent: "Fetch Latency", formulas: []string{"dsb2mite_switches.penalty_cycles /" + clocks}, of: ofCycles, high: 0.05, next: nextFetchBand},
			{name: "Fetch Bandwidth", parent: "Frontend Bound", formulas: []string{"Frontend_Bound - Fetch_Latency"}, of: ofSlots, high: 0.2, alone: true, next: nextFetchBand},
			{name: "MITE", parent: "Fetch Bandwidth", formulas: []string{"( idq.all_mite_cycles_any_uops - idq.all_mite_cycles_4_uops ) /" + clocks + "/ 2"}, of: ofCycles, high: 0.1, next: nextFetchBand},
			{name: "DSB", parent: "Fetch Bandwidth", formulas: []string{"( idq.dsb_cycles_any - idq.dsb_cycles_ok ) /" + clocks + "/ 2"}, of: ofCycles, high: 0.15, next: nextFetchBand},
			{name: "Memory Bound", parent: "Backend Bound", formulas: []string{memoryBound}, of: ofSlots, high: 0.2, next: nextMemory},
			{name: "L1 Bound", parent: "Memory Bound", formulas: []string{"( cycle_activity.stalls_mem_any - cycle_activity.stalls_l1d_miss ) /" + clocks}, of: ofCycles, high: 0.1, next: nextL1},
			{name: "L2 Bound", parent: "Memory Bound", formulas: []string{l2Bound("l1d_pend_miss.fb_full,cmask=1")}, of: ofCycles, high: 0.05, next: nextL2},
			{name: "L3 Bound", parent: "Memory Bound", formulas: []string{"( cycle_activity.stalls_l2_miss - cycle_activity.stalls_l3_miss ) /" + clocks}, of: ofCycles, high: 0.05, next: nextL3},
			{name: "DRAM Bound", parent: "Memory Bound", formulas: []string{dramBound}, of: ofCycles, high: 0.1, next: nextDRAM},
			{name: "Store Bound", parent: "Memory Bound", formulas: []string{"exe_activity.bound_on_stores /" + clocks}, of: ofCycles, high: 0.2, next: nextStore},
			{name: "Core Bound", parent: "Backend Bound", formulas: []string{"Backend_Bound - Memory_Bound"}, of: ofSlots, high: 0.1, next: nextCore},
			{name: "Divider", parent: "Core Bound", formulas: []string{"arith.divider_active /" + clocks}, of: ofCycles, high: 0.2, next: nextDivider},
			{name: "Serializing Operation", parent: "Core Bound", formulas: []string{"partial_rat_stalls.scoreboard /" + clocks}, of: ofCycles, high: 0.1, next: nextSerial},
		},
	},
	// What the other thread of a core takes is in none of the other four.
	zen("AMD Zen 4", "amd-zen4", 6, "de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6", "resyncs_or_nc_redirects"),
	zen("AMD Zen 5", "amd-zen5", 8, "de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x8", "bp_redirects.resync"),
}

// Formulas that Skylake and Ice Lake share.
const (
	memoryBound = "( cycle_activity.stalls_mem_any + exe_activity.bound_on_stores ) / ( cycle_activity.stalls_total + ( exe_activity.1_ports_util + Retiring * exe_activity.2_ports_util )" +
		" + exe_activity.bound_on_stores ) * Backend_Bound"
	dramBound = "cycle_activity.stalls_l3_miss /" + clocks + "+ ( cycle_activity.stalls_l1d_miss - cycle_activity.stalls_l2_miss ) /" + clocks + "- L2_Bound"
)

// l2Bound is theirs with the event of full buffers.
func l2Bound(full string) string {
	const hits = " mem_load_retired.l2_hit * ( 1 + mem_load_retired.fb_hit / mem_load_retired.l1_miss ) "
	return hits + "/ (" + hits + "+ " + full + " ) * ( ( cycle_activity.stalls_l1d_miss - cycle_activity.stalls_l2_miss ) /" + clocks + ")"
}

// zen has the metrics of AMD's processors from Zen 4 on, which have no published thresholds: tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json
// and amdzen5/pipeline.json of Linux 6.12. idle is the event of cycles in which the front end had nothing, restarts that of other redirects.
func zen(title, model string, slots int, idle, restarts string) family {
	const all = " ( #slots * ls_not_halted_cyc ) "
	return family{
		title: title, source: "AMD's pipeline metrics (Linux 6.12, " + map[int]string{6: "amdzen4", 8: "amdzen5"}[slots] + "/pipeline.json)", models: []string{model}, slots: slots,
		metrics: []metric{
			{name: "Retiring", formulas: []string{"ex_ret_ops /" + all}, of: ofSlots, next: nextRetiring},
			{name: "Bad Speculation", formulas: []string{"( de_src_op_disp.all - ex_ret_ops ) /" + all}, of: ofSlots, next: nextSpeculation},
			{name: "Frontend Bound", formulas: []string{"de_no_dispatch_per_slot.no_ops_from_frontend /" + all}, of: ofSlots, next: nextFrontEnd},
			{name: "Backend Bound", formulas: []string{"de_no_dispatch_per_slot.backend_stalls /" + all}, of: ofSlots, next: nextBackEnd},
			{name: "SMT Contention", formulas: []string{"de_no_dispatch_per_slot.smt_contention /" + all}, of: ofSlots,
				next: "The other thread of the core takes turns: compare with one thread for each core."},
			{name: "Retiring Fastpath", parent: "Retiring", formulas: []string{"Retiring * ( 1 - ex_ret_ucode_ops / ex_ret_ops )"}, of: ofSlots, next: nextLight},
			{name: "Retiring Microcode", parent: "Retiring", formulas: []string{"Retiring * ex_ret_ucode_ops / ex_ret_ops"}, of: ofSlots, next: nextMicrocode},
			{name: "Bad Speculation Mispredicts", parent: "Bad Speculation", formulas: []string{"Bad_Speculation * ex_ret_brn_misp / ( ex_ret_brn_misp + " + restarts + " )"}, of: ofSlots, next: nextMispredict},
			{name: "Bad Speculation Pipeline Restarts", parent: "Bad Speculation", formulas: []string{"Bad_Speculation * " + restarts + " / ( ex_ret_brn_misp + " + restarts + " )"}, of: ofSlots, next: nextClears},
			{name: "Frontend Bound Latency", parent: "Frontend Bound", formulas: []string{"#slots * " + idle + " /" + all}, of: ofSlots, next: nextFetchLat},
			{name: "Frontend Bound Bandwidth", parent: "Frontend Bound", formulas: []string{"( de_no_dispatch_per_slot.no_ops_from_frontend - #slots * " + idle + " ) /" + all}, of: ofSlots, next: nextFetchBand},
			{name: "Backend Bound Memory", parent: "Backend Bound", formulas: []string{"Backend_Bound * ex_no_retire.load_not_complete / ex_no_retire.not_complete"}, of: ofSlots, next: nextMemory},
			{name: "Backend Bound CPU", parent: "Backend Bound", formulas: []string{"Backend_Bound * ( 1 - ex_no_retire.load_not_complete / ex_no_retire.not_complete )"}, of: ofSlots, next: nextCore},
		},
	}
}

// Numbers of parts of Arm's Neoverse cores.
const (
	neoverseN1 = 0xd0c
	neoverseV1 = 0xd40
	neoverseN2 = 0xd49
	neoverseV2 = 0xd4f
	neoverseV3 = 0xd84
	neoverseN3 = 0xd8e
)

// neoverse returns the metrics of a core of Arm's, as far as these are published for it: tools/perf/pmu-events/arch/arm64/arm of Linux 6.14,
// where they come from Arm's Telemetry Solution. It has no thresholds. What a flush of the pipeline takes, the formulas move to bad speculation.
func neoverse(cpu sample.CPU, model string) *family {
	part := 0
	switch {
	case cpu.Vendor == "0x41":
		part = cpu.Model
	case cpu.Vendor != "":
	case model == "arm-neoverse-n1":
		part = neoverseN1
	case model == "arm-neoverse-v1":
		part = neoverseV1
	case model == "arm-neoverse-v2":
		part = neoverseV2
	}
	const all = " ( #slots * cpu_cycles ) "
	stalls, frontStalls := "stall_slot", "stall_slot_frontend"
	if part == neoverseN2 && cpu.Stepping < 3 { // before r0p3 a slot too many is counted in each cycle
		stalls, frontStalls = "( stall_slot - cpu_cycles )", "( stall_slot_frontend - cpu_cycles )"
	}
	if part == neoverseN1 {
		return &neoverseN1Family
	}
	f := &family{}
	front, back, bad := "", "", " + 4 * br_mis_pred / cpu_cycles"
	switch part {
	case neoverseV1:
		f.title, f.source, f.slots = "Arm Neoverse V1", "neoverse-v1", 8
		front = " - 4 * br_mis_pred / cpu_cycles"
	case neoverseN2:
		f.title, f.source, f.slots = "Arm Neoverse N2", "neoverse-n2-v2", 5
		front, back = " - br_mis_pred / cpu_cycles", " - 3 * br_mis_pred / cpu_cycles"
	case neoverseV2:
		f.title, f.source, f.slots = "Arm Neoverse V2", "neoverse-n2-v2", 8
		front, back = " - br_mis_pred / cpu_cycles", " - 3 * br_mis_pred / cpu_cycles"
	case neoverseV3, neoverseN3:
		f.title, f.source, f.slots = "Arm Neoverse V3", "neoverse-v3", 10
		if part == neoverseN3 {
			f.title, f.source, f.slots = "Arm Neoverse N3", "neoverse-n3", 5
		}
		front, bad = " - stall_frontend_flush / cpu_cycles", " + stall_frontend_flush / cpu_cycles"
	default:
		return nil
	}
	f.source = "Arm's Telemetry Solution (Linux 6.14, " + f.source + "/metrics.json)"
	f.metrics = []metric{
		{name: "Retiring", formulas: []string{"op_retired / op_spec * ( 1 - " + stalls + " /" + all + ")"}, of: ofSlots, next: nextRetiring},
		{name: "Bad Speculation", formulas: []string{"( 1 - op_retired / op_spec ) * ( 1 - " + stalls + " /" + all + ")" + bad}, of: ofSlots, next: nextMispredict},
		{name: "Frontend Bound", formulas: []string{frontStalls + " /" + all + front}, of: ofSlots, next: nextFrontEnd},
		{name: "Backend Bound", formulas: []string{"stall_slot_backend /" + all + back}, of: ofSlots, next: nextBackEnd},
	}
	if part == neoverseV3 || part == neoverseN3 {
		f.metrics = append(f.metrics,
			metric{name: "Frontend Core Bound", parent: "Frontend Bound", formulas: []string{"stall_frontend_cpubound / stall_frontend"}, of: ofStalls, next: nextFetchBand},
			metric{name: "Frontend Memory Bound", parent: "Frontend Bound", formulas: []string{"stall_frontend_membound / stall_frontend"}, of: ofStalls, next: nextFetchLat},
			metric{name: "Frontend Memory Cache Bound", parent: "Frontend Memory Bound", formulas: []string{"( stall_frontend_l1i + stall_frontend_mem ) / stall_frontend_membound"}, of: ofStalls, next: nextFetchLat},
			metric{name: "Frontend Memory TLB Bound", parent: "Frontend Memory Bound", formulas: []string{"stall_frontend_tlb / stall_frontend_membound"}, of: ofStalls, next: nextFetchLat},
			metric{name: "Backend Core Bound", parent: "Backend Bound", formulas: []string{"stall_backend_cpubound / stall_backend"}, of: ofStalls, next: nextCore},
			metric{name: "Backend Memory Bound", parent: "Backend Bound", formulas: []string{"stall_backend_membound / stall_backend"}, of: ofStalls, next: nextMemory},
			metric{name: "Backend Memory Cache Bound", parent: "Backend Memory Bound", formulas: []string{"( stall_backend_l1d + stall_backend_mem ) / stall_backend_membound"}, of: ofStalls, next: nextMemory},
			metric{name: "Backend Memory TLB Bound", parent: "Backend Memory Bound", formulas: []string{"stall_backend_tlb / stall_backend_membound"}, of: ofStalls, next: nextDTLB},
			metric{name: "Backend Memory Store Bound", parent: "Backend Memory Bound", formulas: []string{"stall_backend_st / stall_backend_membound"}, of: ofStalls, next: nextStore})
	}
	return f
}

// neoverseN1Family is that of a processor that does not count slots: Arm has no four shares of it, but cycles in which either end of
// the pipeline stalls, which leave out those in which less than four operations pass, and ratios to look at next by its decision tree
// (methodologies of data/pmu/cpu/neoverse/neoverse-n1.json). Those of the second level's translations and cache and of the last cache are next to both:
// they are of code and data together, and are here once. Misses for 1000 instructions and shares of operations are no losses, and left out.
var neoverseN1Family = family{
	title: "Arm Neoverse N1", source: "Arm's Telemetry Solution (Linux 6.14, neoverse-n1/metrics.json)",
	metrics: []metric{
		{name: "Frontend Stalled Cycles", formulas: []string{"stall_frontend / cpu_cycles"}, of: ofCycles, next: nextFrontEnd},
		{name: "Backend Stalled Cycles", formulas: []string{"stall_backend / cpu_cycles"}, of: ofCycles, next: nextStalled},
		{name: "Branch Misprediction Ratio", parent: "Frontend Stalled Cycles", formulas: []string{"br_mis_pred_retired / br_retired"}, of: ofBranches, next: nextMispredict},
		{name: "ITLB Walk Ratio", parent: "Frontend Stalled Cycles", formulas: []string{"itlb_walk / l1i_tlb"}, of: ofTranslations, next: nextITLB},
		{name: "L1 Instruction TLB Miss Ratio", parent: "Frontend Stalled Cycles", formulas: []string{"l1i_tlb_refill / l1i_tlb"}, of: ofTranslations, next: nextITLB},
		{name: "L1I Cache Miss Ratio", parent: "Frontend Stalled Cycles", formulas: []string{"l1i_cache_refill / l1i_cache"}, of: ofAccesses, next: nextFetchLat},
		{name: "DTLB Walk Ratio", parent: "Backend Stalled Cycles", formulas: []string{"dtlb_walk / l1d_tlb"}, of: ofTranslations, next: nextDTLB},
		{name: "L1 Data TLB Miss Ratio", parent: "Backend Stalled Cycles", formulas: []string{"l1d_tlb_refill / l1d_tlb"}, of: ofTranslations, next: nextDTLB},
		{name: "L2 Unified TLB Miss Ratio", parent: "Backend Stalled Cycles", formulas: []string{"l2d_tlb_refill / l2d_tlb"}, of: ofTranslations, next: nextDTLB},
		{name: "L1D Cache Miss Ratio", parent: "Backend Stalled Cycles", formulas: []string{"l1d_cache_refill / l1d_cache"}, of: ofAccesses, next: nextL2},
		{name: "L2 Cache Miss Ratio", parent: "Backend Stalled Cycles", formulas: []string{"l2d_cache_refill / l2d_cache"}, of: ofAccesses, next: nextL3},
		{name: "LL Cache Read Miss Ratio", parent: "Backend Stalled Cycles", formulas: []string{"ll_cache_miss_rd / ll_cache_rd"}, of: ofAccesses, next: nextDRAM},
	},
}

// spellings are other names of events, by the one that formulas have: perf's own names of the same event (arch/x86/events/intel/core.c and
// arch/x86/events/amd/core.c and drivers/perf/arm_pmuv3.c of Linux 6.12), and the events that Intel gives to sample what the register PERF_METRICS counts ("Sample with", spr-metrics.json).
var spellings = map[string][]string{
	"cpu_clk_unhalted.thread":      {"cycles", "cpu-cycles", "topdown-total-slots", "cpu_clk_unhalted.thread_p"},
	"ls_not_halted_cyc":            {"cycles", "cpu-cycles"},
	"cpu_cycles":                   {"cycles", "cpu-cycles"},
	"stall_frontend":               {"stalled-cycles-frontend"},
	"stall_backend":                {"stalled-cycles-backend"},
	"inst_retired.any":             {"instructions", "inst_retired.any_p"},
	"uops_retired.retire_slots":    {"topdown-slots-retired"},
	"uops_issued.any":              {"topdown-slots-issued"},
	"idq_uops_not_delivered.core":  {"topdown-fetch-bubbles"},
	"int_misc.recovery_cycles":     {"topdown-recovery-bubbles"},
	"br_misp_retired.all_branches": {"branch-misses"},
	"ex_ret_brn_misp":              {"branch-misses"},
	"topdown-retiring":             {"uops_retired.slots"},
	"topdown-bad-spec":             {"topdown.bad_spec_slots"},
	"topdown-fe-bound":             {"idq_uops_not_delivered.core", "idq_bubbles.core"},
	"topdown-be-bound":             {"topdown.backend_bound_slots"},
	"topdown-br-mispredict":        {"topdown.br_mispredict_slots"},
	"topdown-mem-bound":            {"topdown.memory_bound_slots"},
}
