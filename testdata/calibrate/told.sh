# told.sh is sourced: told LOG prints what a recorder says, in its log, that calibration took.
told() { sed -n 's/^backfeed: calibration took //p' "$1"; }
