# Profiles of backfeed for GNU make. $(call backfeed_profile,FILE,OBJECTS) has objects compiled with a profile, again when
# it changes, and without while the file is not there:
#
#   include backfeed.mk
#   $(eval $(call backfeed_profile,prof/app.prof,app.o lib.o))
#
# clang reads what `backfeed emit llvm` wrote, gcc what `emit gcc` did. The flags are added to CFLAGS and CXXFLAGS. Which
# compiler it is, CC says when objects are compiled, wherever it is set; the first target of the makefile is its own.
backfeed_clang = $(eval backfeed_clang := $$(findstring clang,$$(shell $$(CC) --version)))$(backfeed_clang)
backfeed_lines = $(if $(backfeed_clang),-gline-tables-only -fdebug-info-for-profiling,-g)
backfeed_use = $(if $(backfeed_clang),-fprofile-sample-use=,-fno-tracer -fauto-profile=)

define backfeed_profile
backfeed_goal := $$(.DEFAULT_GOAL)
$(2): private CFLAGS += $$(backfeed_lines) $(if $(wildcard $(1)),$$(backfeed_use)$(1))
$(2): private CXXFLAGS += $$(backfeed_lines) $(if $(wildcard $(1)),$$(backfeed_use)$(1))
$(2): $(wildcard $(1))
.DEFAULT_GOAL := $$(backfeed_goal)
endef
