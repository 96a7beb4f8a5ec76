// What mujs runs, as often as its argument says: parsing and printing of JSON, regular expressions, strings, objects, closures and a sort.
var text = "the quick brown fox jumps over the lazy dog, 42 times at 07:15 and then once more";

function Account(name, balance) { this.name = name; this.balance = balance; }
Account.prototype.pay = function (other, amount) { this.balance -= amount; other.balance += amount; return this; };

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

function counted(words) {
	var seen = {};
	for (var i = 0; i < words.length; i++) seen[words[i]] = (seen[words[i]] || 0) + 1;
	return seen;
}

function work(round) {
	var words = text.toUpperCase().split(/[^A-Z0-9]+/), sum = fib(12), seen = counted(words), list = [], i;
	for (i = 0; i < 120; i++) list.push({ key: (i * 7919 + round) % 1009, word: words[i % words.length] });
	list.sort(function (a, b) { return a.key - b.key; });
	var again = JSON.parse(JSON.stringify({ list: list.slice(0, 40), seen: seen, round: round }));
	for (i = 0; i < again.list.length; i++) sum += again.list[i].key + again.list[i].word.length;
	var one = new Account("one", 100), two = new Account("two", round);
	for (i = 0; i < 60; i++) one.pay(two, i % 7).pay(two, 1);
	text.replace(/([a-z]+)(?: (?=[a-z])|,)/g, function (all, word) { sum += word.length; return word; });
	for (i = 0; i < 40; i++) sum += parseInt(String(Math.sqrt(i * round + 1)).substring(0, 4).replace(".", ""), 10) & 15;
	return sum + one.balance - two.balance + (seen.THE || 0);
}

var total = 0;
for (var n = 0, end = +scriptArgs[scriptArgs.length - 1]; n < end; n++) total += work(n);
print(total);
