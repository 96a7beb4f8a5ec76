package explain

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/sample"
)

// withEvents makes an explainer of a recording with so many samples of 1000 events each.
func withEvents(t testing.TB, model string, cpu sample.CPU, samples map[string]uint64) *Explainer {
	t.Helper()
	rec := &sample.Recording{}
	for name, n := range samples {
		c := sample.NewCounts(cpu, sample.Event{Name: name, Period: 1000, Unit: "events"})
		c.AddSample(c.Image(theImage), 0x78, n)
		rec.Counts = append(rec.Counts, c)
	}
	x, err := New(&infer.Profile{Machine: model, Event: sample.Event{Name: "cycles", Period: 1, Unit: "cycles"}}, rec)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// tree prints metrics, those of a level deeper with one dot more: their share in percent, whether that is high, and a star where to look first.
func tree(m *Metrics) string {
	var b strings.Builder
	for _, c := range m.Metrics {
		star := ""
		if c.Follow {
			star = "*"
		}
		fmt.Fprintf(&b, "%s%s%s %.1f %s\n", strings.Repeat(".", c.Level-1), c.Name, star, 100*c.Share, c.High)
	}
	return b.String()
}

// TestMetrics: values that were worked out by hand, from round numbers of samples.
func TestMetrics(t *testing.T) {
	arm := func(part, stepping int) sample.CPU {
		return sample.CPU{Arch: "aarch64", Vendor: "0x41", Model: part, Stepping: stepping}
	}
	for _, tt := range []struct {
		name, model string
		cpu         sample.CPU
		samples     map[string]uint64
		want        string
	}{
		{"Golden Cove, three levels", "intel-sapphirerapids", sample.CPU{}, map[string]uint64{
			"cpu/topdown-retiring/u": 40000, "topdown-bad-spec:u": 10000, "topdown-fe-bound": 20000, "topdown-be-bound": 30000,
			"topdown-heavy-ops": 12000, "topdown-br-mispredict": 8000, "topdown-fetch-lat": 15000, "topdown-mem-bound": 25000,
			"cycles": 20000, "EXE_ACTIVITY.BOUND_ON_LOADS": 8000, "memory_activity.stalls_l1d_miss": 6000, "memory_activity.stalls_l2_miss": 5000, "memory_activity.stalls_l3_miss": 4500,
			"exe_activity.bound_on_stores": 1000, "icache_data.stalls": 2400,
			"exe_activity.exe_bound_0_ports": 2000, "rs.empty_resource": 300, "resource_stalls.scoreboard": 500, "cycle_activity.stalls_total": 13000,
			"exe_activity.1_ports_util": 1000, "exe_activity.2_3_ports_util": 2500, "arith.div_active": 400,
		}, `Retiring 40.0 yes
.Light Operations 28.0 no
.Heavy Operations* 12.0 yes
Bad Speculation 10.0 no
.Branch Mispredicts 8.0 no
.Machine Clears 2.0 no
Frontend Bound 20.0 yes
.Fetch Latency 15.0 yes
..ICache Misses* 12.0 yes
.Fetch Bandwidth 5.0 no
Backend Bound 30.0 yes
.Memory Bound 25.0 yes
..L1 Bound* 10.0 maybe
..L2 Bound* 5.0 maybe
..L3 Bound 2.5 no
..DRAM Bound* 22.5 yes
..Store Bound 5.0 no
.Core Bound 5.0 no
..Divider 2.0 no
..Ports Utilization 12.5 no
`}, // Ports Utilization: (2000 + 0) / 20000 * 5000 + 1000 + 0.4 * 2500 = 2500 of 20000, as 400 < 13000 - 8000
		{"the same, as the front end drops operations", "intel-sapphirerapids", sample.CPU{}, map[string]uint64{
			"topdown-retiring": 40000, "topdown-bad-spec": 10000, "topdown-fe-bound": 20000, "topdown-be-bound": 30000, "int_misc.uop_dropping": 3000,
		}, "Retiring 40.0 no\nBad Speculation 13.0 no\nFrontend Bound* 17.0 yes\nBackend Bound* 30.0 yes\n"},
		{"the same, of events that are sampled", "intel-sapphirerapids", sample.CPU{}, map[string]uint64{
			"uops_retired.slots": 40000, "topdown.bad_spec_slots": 10000, "idq_bubbles.core": 20000, "topdown.backend_bound_slots": 30000, "topdown.memory_bound_slots": 8000,
		}, "Retiring 40.0 no\nBad Speculation 10.0 no\nFrontend Bound* 20.0 yes\nBackend Bound 30.0 yes\n.Memory Bound 8.0 no\n.Core Bound* 22.0 yes\n"},
		{"Ice Lake", "intel-icelake", sample.CPU{}, map[string]uint64{
			"topdown-retiring": 30000, "topdown-bad-spec": 20000, "topdown-fe-bound": 10000, "topdown-be-bound": 40000, "cycles": 20000,
			"branch-misses": 300, "machine_clears.count": 100,
			"cycle_activity.stalls_mem_any": 7000, "exe_activity.bound_on_stores": 1000, "cycle_activity.stalls_total": 10000, "exe_activity.1_ports_util": 2000, "exe_activity.2_ports_util": 10000,
			"cycle_activity.stalls_l1d_miss": 4000, "cycle_activity.stalls_l2_miss": 3000, "cycle_activity.stalls_l3_miss": 1000,
			"mem_load_retired.l2_hit": 600, "mem_load_retired.fb_hit": 500, "mem_load_retired.l1_miss": 1000, "l1d_pend_miss.fb_full_periods": 900,
		}, `Retiring 30.0 no
Bad Speculation 20.0 yes
.Branch Mispredicts* 15.0 yes
.Machine Clears 5.0 no
Frontend Bound 10.0 no
Backend Bound 40.0 yes
.Memory Bound 20.0 maybe
..L1 Bound* 15.0 maybe
..L2 Bound 2.5 no
..L3 Bound* 10.0 maybe
..DRAM Bound 7.5 no
..Store Bound 5.0 no
.Core Bound* 20.0 yes
`}, // Memory Bound: (7000 + 1000) / (10000 + 2000 + 0.3 * 10000 + 1000) = 0.5 of 40 %; L2 Bound: 900 / (900 + 900) of 1000 / 20000
		{"Skylake", "intel-skylake-x", sample.CPU{}, map[string]uint64{
			"cpu_clk_unhalted.thread": 10000, "uops_retired.retire_slots": 16000, "uops_issued.any": 18000, "int_misc.recovery_cycles": 500, "idq_uops_not_delivered.core": 8000,
			"uops_retired.macro_fused": 3000, "instructions": 17000, "idq_uops_not_delivered.cycles_0_uops_deliv.core": 1500, "icache_tag.stalls": 700,
		}, `Retiring 40.0 no
.Light Operations 35.0 no
.Heavy Operations 5.0 no
Bad Speculation 10.0 no
Frontend Bound 20.0 yes
.Fetch Latency 15.0 yes
..ITLB Misses* 7.0 yes
.Fetch Bandwidth 5.0 no
Backend Bound* 30.0 yes
`},
		{"Zen 4, which has no thresholds", "amd-zen4", sample.CPU{}, map[string]uint64{
			"cycles": 10000, "ex_ret_ops": 24000, "de_src_op_disp.all": 30000, "de_no_dispatch_per_slot.no_ops_from_frontend": 12000, "de_no_dispatch_per_slot.backend_stalls": 15000,
			"de_no_dispatch_per_slot.smt_contention": 3000, "cpu/de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6/": 500, "ex_ret_ucode_ops": 2400,
			"ex_ret_brn_misp": 300, "resyncs_or_nc_redirects": 100, "ex_no_retire.load_not_complete": 3200, "ex_no_retire.not_complete": 4000,
		}, `Retiring 40.0 
.Retiring Fastpath 36.0 
.Retiring Microcode 4.0 
Bad Speculation 10.0 
.Bad Speculation Mispredicts 7.5 
.Bad Speculation Pipeline Restarts 2.5 
Frontend Bound 20.0 
.Frontend Bound Latency 5.0 
.Frontend Bound Bandwidth 15.0 
Backend Bound 25.0 
.Backend Bound Memory* 20.0 
.Backend Bound CPU 5.0 
SMT Contention 5.0 
`},
		{"Zen 5", "amd-zen5", sample.CPU{}, map[string]uint64{
			"ls_not_halted_cyc": 10000, "ex_ret_ops": 16000, "de_src_op_disp.all": 20000, "de_no_dispatch_per_slot.no_ops_from_frontend": 20000, "de_no_dispatch_per_slot.backend_stalls": 40000,
			"branch-misses": 300, "bp_redirects.resync": 100, "ex_no_retire.load_not_complete": 3200, "ex_no_retire.not_complete": 4000,
		}, `Retiring 20.0 
Bad Speculation 5.0 
.Bad Speculation Mispredicts 3.8 
.Bad Speculation Pipeline Restarts 1.2 
Frontend Bound 25.0 
Backend Bound 50.0 
.Backend Bound Memory* 40.0 
.Backend Bound CPU 10.0 
`},
		{"Neoverse V1", "arm-neoverse-v1", sample.CPU{}, map[string]uint64{
			"cpu_cycles": 10000, "stall_slot": 40000, "stall_slot_frontend": 16000, "stall_slot_backend": 24000, "op_retired": 36000, "op_spec": 40000, "br_mis_pred": 125,
		}, "Retiring 45.0 \nBad Speculation 10.0 \nFrontend Bound 15.0 \nBackend Bound* 30.0 \n"},
		{"Neoverse V2", "arm-neoverse-v2", arm(neoverseV2, 1), map[string]uint64{
			"cycles": 10000, "stall_slot": 40000, "stall_slot_frontend": 16000, "stall_slot_backend": 24000, "op_retired": 36000, "op_spec": 40000, "br_mis_pred": 100,
		}, "Retiring 45.0 \nBad Speculation 9.0 \nFrontend Bound 19.0 \nBackend Bound* 27.0 \n"},
		{"Neoverse N2 r0p0, which counts a slot too many", "generic-aarch64", arm(neoverseN2, 0), map[string]uint64{
			"cycles": 10000, "stall_slot": 35000, "stall_slot_frontend": 20000, "stall_slot_backend": 15000, "op_retired": 20000, "op_spec": 25000, "br_mis_pred": 100,
		}, "Retiring 40.0 \nBad Speculation 14.0 \nFrontend Bound 19.0 \nBackend Bound* 27.0 \n"},
		{"Neoverse N2 r0p3, which does not", "generic-aarch64", arm(neoverseN2, 3), map[string]uint64{
			"cycles": 10000, "stall_slot": 25000, "stall_slot_frontend": 10000, "stall_slot_backend": 15000, "op_retired": 20000, "op_spec": 25000, "br_mis_pred": 100,
		}, "Retiring 40.0 \nBad Speculation 14.0 \nFrontend Bound 19.0 \nBackend Bound* 27.0 \n"},
		{"Neoverse V3", "generic-aarch64", arm(neoverseV3, 0), map[string]uint64{
			"cycles": 10000, "stall_slot": 50000, "stall_slot_frontend": 20000, "stall_slot_backend": 60000, "op_retired": 32000, "op_spec": 40000, "stall_frontend_flush": 400,
			"stall_backend": 8000, "stall_backend_membound": 6000, "stall_backend_cpubound": 2000, "stall_backend_tlb": 1500,
		}, "Retiring 40.0 \nBad Speculation 14.0 \nFrontend Bound 16.0 \nBackend Bound 60.0 \n.Backend Core Bound 25.0 \n.Backend Memory Bound 75.0 \n..Backend Memory TLB Bound* 25.0 \n"},
		{"Neoverse N1, which counts no slots", "arm-neoverse-n1", arm(neoverseN1, 0x41), map[string]uint64{
			"cycles": 10000, "stall_frontend": 2000, "stalled-cycles-backend": 4500, "br_mis_pred_retired": 300, "br_retired": 6000, "itlb_walk": 50, "l1i_tlb": 5000,
			"l1d_cache_refill": 900, "l1d_cache": 10000, "ll_cache_miss_rd": 800, "ll_cache_rd": 1000,
		}, `Frontend Stalled Cycles 20.0 
.Branch Misprediction Ratio 5.0 
.ITLB Walk Ratio 1.0 
Backend Stalled Cycles* 45.0 
.L1D Cache Miss Ratio 9.0 
.LL Cache Read Miss Ratio 80.0 
`}, // the last ratio is the largest, and no part of the stalls
		{"parts whose whole is not there are left out", "amd-zen5", sample.CPU{}, map[string]uint64{"cycles": 10000, "ex_ret_ops": 16000, "ex_no_retire.load_not_complete": 3200, "ex_no_retire.not_complete": 4000}, "Retiring 20.0 \n"},
		{"no events", "amd-zen5", sample.CPU{}, nil, ""},
	} {
		m := withEvents(t, tt.model, tt.cpu, tt.samples).CountedMetrics(nil, nil)
		if got := tree(m); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, tt.want)
		}
		for _, c := range m.Metrics {
			if !(c.Range.Least <= c.Share && c.Share <= c.Range.Most && c.Range.Least < c.Range.Most) || c.Next == "" || c.Level > 3 || c.Level == 0 {
				t.Errorf("%s: %+v", tt.name, c)
			}
		}
	}
	for _, model := range []string{"generic-x86_64", "amd-zen3", "generic-aarch64"} {
		if m := withEvents(t, model, sample.CPU{}, nil).CountedMetrics(nil, nil); m != nil {
			t.Errorf("%s: %+v, and nothing is published", model, m)
		}
	}
	if m := withEvents(t, "arm-neoverse-n1", arm(0xd0b, 0), map[string]uint64{"cycles": 10000, "stall_backend": 10}).CountedMetrics(nil, nil); m != nil {
		t.Errorf("Cortex-A76, which has the model of Neoverse N1: %+v, and nothing is published", m)
	}
	n1 := withEvents(t, "arm-neoverse-n1", arm(neoverseN1, 0x41), map[string]uint64{"cycles": 10000, "stall_frontend": 1, "stall_backend": 1})
	if shares, ok := n1.CountedTopDown(nil, nil); ok {
		t.Errorf("Neoverse N1: four shares %+v, of events that do not tell them", shares)
	}
}

// allFamilies are those of the table and of Arm's parts.
func allFamilies() []*family {
	var all []*family
	for i := range families {
		all = append(all, &families[i])
	}
	for _, part := range []int{neoverseN1, neoverseV1, neoverseN2, neoverseV2, neoverseV3, neoverseN3} {
		all = append(all, neoverse(sample.CPU{Vendor: "0x41", Model: part}, ""))
	}
	return all
}

// TestFormulas: every formula can be read, is of events and metrics that there are, and of its own level or above.
func TestFormulas(t *testing.T) {
	for _, f := range allFamilies() {
		names := map[string]int{}
		for _, m := range f.metrics {
			level := 1
			if m.parent != "" {
				level = names[m.parent] + 1
			}
			if level == 1 && m.parent != "" && !slices.ContainsFunc(f.metrics, func(o metric) bool { return o.name == m.parent }) || names[m.name] > 0 || level > 3 {
				t.Errorf("%s: %s: level %d, parent %q", f.title, m.name, level, m.parent)
			}
			names[m.name] = level
		}
		for _, m := range f.metrics {
			for _, text := range m.formulas {
				_, ok := calculate(text, func(word string) (quantity, bool) {
					if name := strings.ReplaceAll(word, "_", " "); word[0] >= 'A' && word[0] <= 'Z' && names[name] == 0 {
						t.Errorf("%s: %s: no metric %s", f.title, m.name, name)
					}
					return quantity{n: 3}, true
				})
				if !ok {
					t.Errorf("%s: %s: cannot read %q", f.title, m.name, text)
				}
			}
		}
		for _, m := range f.metrics[:min(4, 2+f.slots)] { // what counts no slots has two
			if m.parent != "" {
				t.Errorf("%s: %s is not of level 1", f.title, m.name)
			}
		}
	}
	for text, want := range map[string]float64{"1 + 2 * 3": 7, "( 1 + 2 ) * 3 - 4 / 8": 8.5, "max( 2 - 3 , 0 )": 0, "2 if 1 < 2 else 3": 2, "2 if 2 < 1 + 1 else 3 * x": 15, "x - x": 0} {
		if got, ok := calculate(text, func(word string) (quantity, bool) { return quantity{n: 5}, word == "x" }); !ok || got.n != want {
			t.Errorf("%s = %g, %v, want %g", text, got.n, ok, want)
		}
	}
	for _, text := range []string{"", "1 +", "( 1", "1 2", "y", "1 / 0", "max( 1 )", "1 if 2 else 3", "1e"} {
		if got, ok := calculate(text, func(string) (quantity, bool) { return quantity{}, false }); ok {
			t.Errorf("%q = %g", text, got.n)
		}
	}
}

// TestMetricRanges: in 95 of 100 recordings the range has the share that would be found of endlessly many samples.
func TestMetricRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	poisson := func(mean float64) (n uint64) {
		for sum := r.ExpFloat64(); sum < mean; sum += r.ExpFloat64() {
			n++
		}
		return n
	}
	truth := map[string]float64{"ls_not_halted_cyc": 400, "ex_ret_ops": 640, "de_src_op_disp.all": 1000, "de_no_dispatch_per_slot.no_ops_from_frontend": 3, "de_no_dispatch_per_slot.backend_stalls": 1600,
		"ex_ret_brn_misp": 30, "bp_redirects.resync": 10, "ex_no_retire.load_not_complete": 128, "ex_no_retire.not_complete": 160}
	want := map[string]float64{"Retiring": 0.2, "Bad Speculation": 0.1125, "Frontend Bound": 0.0009375, "Backend Bound": 0.5, "Bad Speculation Mispredicts": 0.084375, "Backend Bound Memory": 0.4}
	within := map[string]int{}
	const runs = 1000
	for range runs {
		samples := map[string]uint64{}
		for _, name := range slices.Sorted(maps.Keys(truth)) {
			samples[name] = poisson(truth[name])
		}
		for _, m := range withEvents(t, "amd-zen5", sample.CPU{}, samples).CountedMetrics(nil, nil).Metrics {
			if w, ok := want[m.Name]; ok && m.Range.Least <= w && w <= m.Range.Most {
				within[m.Name]++
			}
		}
	}
	for name := range want {
		if n := within[name]; n < 940 {
			t.Errorf("%s: %d of %d", name, n, runs)
		}
	}
}

// TestMultiplexed: what was counted for a part of the time stands for all of it, and how large that part was is said.
func TestMultiplexed(t *testing.T) {
	rec := &sample.Recording{}
	add := func(name string, n, running uint64) {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: name, Period: 1000, Unit: "events"})
		c.AddSample(c.Image(theImage), 0x78, n)
		c.Enabled, c.Running = 1000, running
		rec.Counts = append(rec.Counts, c)
	}
	add("cycles", 10000, 1000)
	add("ex_ret_ops", 8000, 250)                              // of 32000 in all
	add("de_no_dispatch_per_slot.backend_stalls", 10000, 500) // of 20000
	x, err := New(&infer.Profile{Machine: "amd-zen5", Event: sample.Event{Name: "cycles", Period: 1, Unit: "cycles"}}, rec)
	if err != nil {
		t.Fatal(err)
	}
	m := x.CountedMetrics(nil, nil)
	if len(m.Metrics) != 2 || math.Abs(m.Metrics[0].Share-0.4) > 1e-9 || m.Metrics[0].Reliability != 0.25 || math.Abs(m.Metrics[1].Share-0.25) > 1e-9 || m.Metrics[1].Reliability != 0.5 {
		t.Errorf("%+v", m.Metrics)
	}
}

// TestMissing: what to record next is what would tell most, with all that leads there.
func TestMissing(t *testing.T) {
	registers := map[string]uint64{"topdown-retiring": 20000, "topdown-bad-spec": 10000, "topdown-fe-bound": 30000, "topdown-be-bound": 40000}
	level2 := maps.Clone(registers)
	maps.Copy(level2, map[string]uint64{"topdown-heavy-ops": 1, "topdown-br-mispredict": 1, "topdown-fetch-lat": 1, "topdown-mem-bound": 39000})
	for _, tt := range []struct {
		name, model string
		samples     map[string]uint64
		want        string
	}{
		{"nothing", "intel-sapphirerapids", nil, " [Retiring Bad Speculation Frontend Bound Backend Bound] perf record -e '{slots,cycles,topdown-retiring,topdown-fe-bound,topdown-bad-spec,topdown-be-bound}:S,int_misc.uop_dropping' -- CMD"},
		{"level 1", "intel-sapphirerapids", registers, "Backend Bound [Memory Bound Core Bound] perf record -e '{slots,cycles,topdown-retiring,topdown-fe-bound,topdown-bad-spec,topdown-be-bound,topdown-mem-bound}:S,int_misc.uop_dropping' -- CMD"},
		{"level 2", "intel-sapphirerapids", level2, "Memory Bound [L1 Bound L2 Bound L3 Bound DRAM Bound Store Bound] perf record -e '{slots,cycles,topdown-retiring,topdown-fe-bound,topdown-bad-spec,topdown-be-bound,topdown-mem-bound}:S," +
			"int_misc.uop_dropping,exe_activity.bound_on_loads,memory_activity.stalls_l1d_miss,memory_activity.stalls_l2_miss,memory_activity.stalls_l3_miss,exe_activity.bound_on_stores' -- CMD"},
		{"Neoverse N1's", "arm-neoverse-n1", map[string]uint64{"cycles": 10000, "stall_frontend": 4000}, " [Backend Stalled Cycles] perf record -e 'cycles,stall_frontend,stall_backend' -- CMD"},
		{"AMD's", "amd-zen5", map[string]uint64{"cycles": 10000, "ex_ret_ops": 16000, "de_src_op_disp.all": 20000, "de_no_dispatch_per_slot.no_ops_from_frontend": 40000, "de_no_dispatch_per_slot.backend_stalls": 20000, "de_no_dispatch_per_slot.smt_contention": 1},
			"Frontend Bound [Frontend Bound Latency Frontend Bound Bandwidth] perf record -e 'cycles,ex_ret_ops,de_src_op_disp.all,de_no_dispatch_per_slot.no_ops_from_frontend,de_no_dispatch_per_slot.backend_stalls," +
				"cpu/de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x8/' -- CMD"},
	} {
		m := withEvents(t, tt.model, sample.CPU{}, tt.samples).CountedMetrics(nil, nil)
		if len(m.Missing) == 0 {
			t.Fatalf("%s: nothing is missing", tt.name)
		}
		if got := fmt.Sprintf("%s %v %s", m.Missing[0].Parent, m.Missing[0].Metrics, m.Missing[0].Record); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
