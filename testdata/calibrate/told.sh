# told.sh is sourced: told LOG prints what a recorder says, in its log, that windows and walks took.
told() {
	sed -n 's/^backfeed: \([0-9]* windows\) .* took about \([^ ]*\) .*/\1 in \2/p; s/^backfeed: \([0-9]* walks\) .* took \([^ ;]*\);.*/\1 in \2/p' "$1" | paste -sd ' '
}
