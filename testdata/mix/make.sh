#!/bin/bash
# make.sh: makes mix, samples.bfr and truth.json.gz in this directory. Needs gcc,
# valgrind and python3, and a kernel that lets backfeed record.
# truth.json.gz holds, for the image, executions of every instruction (insn), of
# every taken jump (jump) and of every call (call) in two rounds, as callgrind
# counted them; samples.bfr holds 120 rounds. valgrind 3.19 reads no DWARF 5.
set -eu
cd "$(dirname "$0")"
here=$PWD
mkdir -p /opt/mix
gcc -O2 -gdwarf-4 -o /opt/mix/mix mix.c
cp /opt/mix/mix .
(cd ../.. && go build -o /opt/mix/backfeed ./cmd/backfeed)
/opt/mix/backfeed record -F 9973 -o samples.bfr -- /opt/mix/mix 120 >/dev/null
valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --dump-line=no \
	--callgrind-out-file=/opt/mix/callgrind.out /opt/mix/mix 2 >/dev/null
python3 - /opt/mix/callgrind.out /opt/mix/mix "$here/truth.json.gz" <<'PY'
import collections, gzip, json, re, sys

source, image, out = sys.argv[1:]
counts = {"insn": collections.Counter(), "jump": collections.Counter(), "call": collections.Counter()}
names, obj, callee, pending, last = {}, None, None, None, 0

def name(s):
    m = re.match(r"\((\d+)\)(?: (.*))?$", s)
    if m and m.group(2) is not None:
        names[m.group(1)] = m.group(2)
    return names[m.group(1)] if m else s

def place(s):
    if s == "*":
        return last
    return last + int(s, 0) if s[0] in "+-" else int(s, 16)

for line in open(source):
    key, _, rest = line.strip().partition("=")
    if key == "ob":
        obj = name(rest)
    elif key == "cob":
        callee = name(rest)
    elif key in ("calls", "jump", "jcnd"):
        n, to = rest.split()[:2]
        kind = "call" if key == "calls" else "jump"
        pending = kind, place(to), int(n.split("/")[0]), (callee or obj) if kind == "call" else obj
        if kind == "call":
            callee = None
    elif line[:1] in "+-*" or line.startswith("0x"):
        parts = line.split()
        last = place(parts[0])
        if pending:
            kind, to, n, target = pending
            pending = None
            if obj == target == image and n:
                counts[kind][last, to] += n
        elif obj == image and len(parts) > 1:
            counts["insn"][last] += int(parts[1])

doc = {"insn": {hex(a): n for a, n in sorted(counts["insn"].items())}}
for kind in ("jump", "call"):
    doc[kind] = [[hex(a), hex(b), n] for (a, b), n in sorted(counts[kind].items())]
with gzip.GzipFile(out, "w", mtime=0) as f:
    f.write(json.dumps({image: doc}).encode())
PY
