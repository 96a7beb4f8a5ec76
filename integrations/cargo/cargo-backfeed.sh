#!/bin/sh
# cargo-backfeed.sh PROFILE ARGS...: cargo ARGS... with a profile of `backfeed emit llvm`, and with the lines and discriminators that
# the next recording needs; without the profile while it is not there. It is a script and no lines of .cargo/config.toml,
# since rustc reads the path from the directory of each crate: it has to be absolute.
#
# rustc reads sample profiles by an unstable option: a nightly, or RUSTC_BOOTSTRAP=1 with a stable one, which this sets
# unless RUSTUP_TOOLCHAIN names a nightly. Stable's own -Cprofile-use reads profiles of instrumented builds alone.
set -eu
[ $# -gt 1 ] || { echo "usage: $0 PROFILE ARGS..." >&2; exit 2; }
case $1 in /*) profile=$1 ;; *) profile=$(pwd)/$1 ;; esac
shift
case ${RUSTUP_TOOLCHAIN:-} in nightly*) ;; *) export RUSTC_BOOTSTRAP=1 ;; esac
option=-Zdebug-info-for-profiling # rustc 1.98 spells it otherwise
"${RUSTC:-rustc}" -Zhelp | grep -q ' debug-info-for-profiling=' || option=-Zdebuginfo-for-profiling
flags="$option -Csymbol-mangling-version=v0" # LLVM does not find functions whose names have dots, as rustc's older ones do
# Without profi, LLVM's way to infer counts of blocks from those of lines, most taken branches stay.
[ ! -f "$profile" ] || flags="$flags -Zprofile-sample-use=$profile -Cllvm-args=-sample-profile-use-profi"
# A release of cargo has no lines, and line-tables-only does not say where functions begin, from which profiles count lines.
export CARGO_PROFILE_RELEASE_DEBUG="${CARGO_PROFILE_RELEASE_DEBUG:-limited}"
RUSTFLAGS="${RUSTFLAGS:-} $flags" exec "${CARGO:-cargo}" "$@"
