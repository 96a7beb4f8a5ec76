// Words are counted, and points are moved about in objects with methods.
function Point(x, y) { this.x = x; this.y = y; }
Point.prototype.add = function (o) { return new Point(this.x + o.x, this.y + o.y); };
Point.prototype.norm = function () { return this.x * this.x + this.y * this.y; };
var words = {}, text = "the quick brown fox jumps over the lazy dog and the dog sleeps on";
for (var turn = 0; turn < 20; turn++) {
	text.split(" ").forEach(function (w) { words[w + turn % 7] = (words[w + turn % 7] || 0) + 1; });
}
var keys = Object.keys(words).sort(function (a, b) { return words[b] - words[a] || (a < b ? -1 : 1); });
var p = new Point(0, 0), far = 0;
for (var i = 0; i < 3000; i++) {
	p = p.add(i % 3 ? new Point(i & 7, 1) : new Point(-(i % 5), 2));
	if (p.norm() > 1e6) { p = new Point(0, 0); far++; }
}
var sieve = [];
for (var n = 2; n < 500; n++) {
	if (sieve.every(function (q) { return n % q; })) sieve.push(n);
}
keys.length + far + sieve.length;
