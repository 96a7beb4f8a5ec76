# Read by make.sh: makes in $work what the programs run on, the same wherever this tree ($root) is.

gcc -O2 -fno-tree-vectorize -fno-unroll-loops -fno-if-conversion -fno-if-conversion2 -gdwarf-4 -Wl,--build-id \
	-o "$work/constructed" "$here/constructed.c"
cat "$root"/infer/*.go "$root"/sample/*/*.go >"$work/text"
head -c 600000 "$work/text" >"$work/short"
for i in $(seq 12); do cat "$work/text"; done >"$work/big"
sed 's/err/fault/; 97d; 1003d; 7919d' "$work/text" >"$work/changed"
gzip -c "$work/big" >"$work/big.gz"
bzip2 -c "$work/text" >"$work/text.bz2"
printf 'scale=1200\n4*a(1)\ne(2)\nfor(i=0;i<20000;i++) x+=i*i%%7\nx\nquit\n' >"$work/in.bc"
cat >"$work/in.tcl" <<'END'
proc f n {if {$n<2} {return $n}; return [expr {[f [expr {$n-1}]]+[f [expr {$n-2}]]}]}
puts [f 21]; set l {}; for {set i 0} {$i<50000} {incr i} {lappend l [expr {($i*7919)%100003}]}; puts [llength [lsort -integer $l]]
END
cat >"$work/in.py" <<'END'
import json, re
words = {}
for w in re.findall(r"[A-Za-z_]+", open(__import__("sys").argv[1]).read()):
    words[w] = words.get(w, 0) + 1
print(len(json.dumps(sorted(words.items(), key=lambda p: -p[1]))))
END
cat >"$work/in.sql" <<'END'
create table t(a integer primary key, b, c);
with recursive n(i) as (select 1 union all select i+1 from n where i<60000) insert into t select i, i*7919%100003, 'x'||i from n;
create index tb on t(b);
select count(*), sum(a), max(c) from t where b between 100 and 90000;
select b%13 k, count(*), avg(a) from t group by k order by 2 desc;
END
cat >"$work/in.lua" <<'END'
local t = {} for i = 1, 300000 do t[i] = (i * 7919) % 100003 end table.sort(t)
local q = {} for i = 1, 60000 do q[#q + 1] = tostring(i) .. ":" end print(t[7], #table.concat(q))
END
cat >"$work/in.pl" <<'END'
my %h; open F, $ARGV[0]; while (<F>) { while (/([A-Za-z_]+)/g) { $h{$1}++ } }
print "$_ $h{$_}\n" for sort { $h{$b} <=> $h{$a} || $a cmp $b } keys %h;
END
{ echo 'digraph {'; for i in $(seq 160); do echo "n$i -> n$((i * 7 % 161)); n$i -> n$((i * 3 % 161));"; done; echo '}'; } >"$work/in.dot"
{ echo '<r>'; for i in $(seq 20000); do echo "<e id=\"$i\"><v>$((i * 7919 % 10007))</v></e>"; done; echo '</r>'; } >"$work/in.xml"

cat >"$work/words.awk" <<'END'
{ for (i = 1; i <= NF; i++) h[$i]++ } END { for (k in h) n += h[k] * length(k); print n }
END
echo '[range(90000)|{a:.,b:(.*7%13)}]|group_by(.b)|map({k:.[0].b,s:(map(.a)|add)})' >"$work/in.jq"
cat >"$work/in.rb" <<'END'
words = Hash.new(0)
File.read(ARGV[0]).scan(/[A-Za-z_]+/) { |w| words[w] += 1 }
puts words.sort_by { |w, n| [-n, w] }.map { |w, n| "#{w}=#{n}" }.join(",").length
END
cat >"$work/in.php" <<'END'
<?php function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
$h = []; foreach (preg_split('/\W+/', file_get_contents($argv[1])) as $w) $h[$w] = ($h[$w] ?? 0) + 1;
arsort($h); echo fib(28), count($h), strlen(json_encode($h)), "\n";
END
cat >"$work/in.scm" <<'END'
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (queens n k placed)
  (if (= k 0) 1
      (let loop ((c 0) (sum 0))
        (if (= c n) sum
            (loop (+ c 1)
                  (if (let safe ((p placed) (d 1))
                        (or (null? p) (and (not (= (car p) c)) (not (= (abs (- (car p) c)) d)) (safe (cdr p) (+ d 1)))))
                      (+ sum (queens n (- k 1) (cons c placed)))
                      sum))))))
(display (+ (fib 25) (queens 8 8 '())))
END
echo '[la1+dsa*1+d20000>x]sx 1sa0lxx 2 20000^3 9000^*p 3000k2vp' >"$work/in.dc"
cat >"$work/in.m4" <<'END'
define(`count', `ifelse($1, 0, `', `word$1 eval($1 * 7919 % 1009) len(`$1$1') count(decr($1))')')
END
for i in $(seq 50); do echo 'count(1200)'; done >>"$work/in.m4"
cat >"$work/in.ps" <<'END'
%!PS
/Times-Roman findfont 9 scalefont setfont
0 1 60 { /y exch def 0 1 12 { 45 mul y 12 mul moveto y 20 string cvs show } for } for
0 1 500 { /i exch def i 7 mul 600 mod i 11 mul 800 mod moveto i 13 mul 600 mod i 3 mul 800 mod 300 400 i 800 mod 50 curveto stroke } for
showpage
END
cat >"$work/in.gp" <<'END'
set terminal svg size 800,600
set output "/dev/null"
set samples 4000
set isosamples 60
plot sin(x*x)*exp(-x/9), besj0(x), gamma(abs(x)+1)/10
splot x*x-y*y, sin(x)*cos(y)
END
cat >"$work/in.mod" <<'END'
param n := 110; set I := 1..n; var x{I, I}, binary;
maximize all: sum{i in I, j in I} ((i * 7919 + j * 104729) mod 101) * x[i, j];
s.t. row{i in I}: sum{j in I} x[i, j] = 1; s.t. column{j in I}: sum{i in I} x[i, j] = 1; solve; end;
END
cat >"$work/in.xsl" <<'END'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/r"><o>
<xsl:for-each select="e"><xsl:sort select="v" data-type="number"/><i><xsl:value-of select="concat(@id, ':', v + 1)"/></i></xsl:for-each>
</o></xsl:template></xsl:stylesheet>
END
perl -e 'srand(7); my ($v, $c) = (200, 852); print "p cnf $v $c\n"; for (1..$c) { print join(" ", map { (1 + int(rand $v)) * (rand() < .5 ? -1 : 1) } 1..3), " 0\n" }' >"$work/in.cnf"
perl -e 'for my $f (1..5000) { print ".TH T$f 1\n.SH NAME\n" if $f % 40 == 1; print ".PP\n.B word$f\nThe quick brown fox jumps over the lazy dog, and number $f is said in ", $f * 7919 % 1009, " words that fill the line.\n" x 6 }' >"$work/in.man"
perl -e 'binmode STDOUT; print "P6\n1600 1200\n255\n"; for my $y (0..1199) { for my $x (0..1599) { print pack "C3", 128 + 127 * sin($x / 31), ($x * $y >> 8) & 255, 128 + 90 * sin(($x + $y) / 17) + $x * 7 % 5 } }' >"$work/in.ppm"
perl -e 'binmode STDOUT; for my $i (0..2000000) { print pack "s<", 12000 * sin($i / 20) + 6000 * sin($i / 7.3) * sin($i / 9000) + $i * 7919 % 301 }' >"$work/in.raw"
perl -e 'print ".text\n"; for my $i (1..30000) { print "L$i:\n\tmovq ", 8 * ($i % 50), "(%rdi), %rax\n\taddq \$", $i, ", %rax\n\tcmpq %rsi, %rax\n\tjne L", 1 + $i * 7 % 30000, "\n\tmovl %eax, v$i(%rip)\n" } print ".bss\n"; print ".lcomm v$_, 8\n" for 1..30000' >"$work/in.s"
perl -e 'print "section .text\n"; for my $i (1..12000) { print "L$i: mov rax, [rdi+", 8 * ($i % 50), "]\n add rax, $i\n cmp rax, rsi\n jne L", 1 + $i * 7 % 12000, "\n" }' >"$work/in.asm"
perl -e 'for my $i (1..20000) { print "<div class=\"c$i\"><p>Some <b>text</b>  of   number $i</p><ul><li>one<li>two</ul></div>\n" }' >"$work/body.html"
{ echo '<!DOCTYPE html><html><head><title>t</title></head><body>'; cat "$work/body.html"; echo '</body></html>'; } >"$work/in.html"
for i in $(seq 20); do cat "$root"/testdata/*/*.sh; done >"$work/in.sh"
cat "$root"/cmd/backfeed/help/*.md >"$work/in.md"
