// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What the prober tells its programs, and they tell those that sample. The map of the System is
// that of its prober.
struct window {
	u32 open;   // hits count: OURS, or EVERYONES, of prober.c
	u32 number; // of the window
	u64 opened; // CLOCK_MONOTONIC, in ns
	u64 closed; // 0 while it is open
	u64 hit;    // time of about the last hit, counted or not
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window);
} windows SEC(".maps");
