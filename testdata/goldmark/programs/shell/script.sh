#!/bin/bash
# Words are counted, sorted and looked up, by nothing but the shell.
declare -A seen
text="the quick brown fox jumps over the lazy dog and the cat sleeps in the warm sun while a bird sings"

count() {
	local word
	for word in $1; do
		seen[$word]=$((${seen[$word]:-0} + 1))
	done
}

fib() {
	local a=0 b=1 i t
	for ((i = 0; i < $1; i++)); do
		t=$((a + b))
		a=$b
		b=$t
	done
	echo "$a"
}

for i in 1 2 3 4 5; do count "$text"; done
for word in $text; do
	case $word in
	t*e) printf '%s:%d\n' "$word" "${seen[$word]}" ;;
	*[aeiou]) echo "${word%[aeiou]}-${#word}" ;;
	s*) echo "${word^^}" ;;
	*) echo "${word//o/0}" ;;
	esac
done
sorted=($(fib 10) $(fib 20) 7 3 99 12 5)
n=${#sorted[@]}
for ((i = 0; i < n; i++)); do
	for ((j = i + 1; j < n; j++)); do
		if [[ ${sorted[j]} -lt ${sorted[i]} ]]; then
			t=${sorted[i]}
			sorted[i]=${sorted[j]}
			sorted[j]=$t
		fi
	done
done
echo "${sorted[*]}"
while read -r name value; do
	[[ $name =~ ^k[0-9]+$ ]] && echo "$name=${value:0:3}"
done <<END
k1 abcdef
k22 ghijkl
other x
k3 mnopqr
END
