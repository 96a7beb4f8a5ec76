"""What CPython runs, so many times: calls and attributes, numbers, text, tables, generators, exceptions."""
import json
import re
import sys


class Task:
    def __init__(self, name, cost):
        self.name, self.cost, self.done = name, cost, 0

    def step(self, by):
        if by > self.cost - self.done:
            raise OverflowError(self.name)
        self.done += by
        return self.done


class Urgent(Task):
    def step(self, by):
        return super().step(by) * 2


def schedule(n):
    tasks = [(Urgent if i % 3 == 0 else Task)("task%d" % i, i * 7 % 23) for i in range(n)]
    total = failed = 0
    for by in (1, 2, 3, 5):
        for task in tasks:
            try:
                total += task.step(by)
            except OverflowError:
                failed += 1
    return total, failed


def orbit(steps):
    x, y, vx, vy = 1.0, 0.0, 0.0, 1.0
    for _ in range(steps):
        r = (x * x + y * y) ** 1.5
        vx -= x / r * 0.01
        vy -= y / r * 0.01
        x += vx * 0.01
        y += vy * 0.01
    return round(x, 6)


def words(text):
    count = {}
    for word in re.findall(r"[A-Za-z_]\w*", text):
        count[word.lower()] = count.get(word.lower(), 0) + 1
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))[:10]


def primes(n):
    sieve = bytearray([1]) * n
    for i in range(2, n):
        if sieve[i]:
            yield i
            for j in range(i * i, n, i):
                sieve[j] = 0


def main(times):
    text = open(__file__).read()
    for _ in range(times):
        got = schedule(400), orbit(3000), words(text * 3), sum(primes(8000))
        table = {str(i): [i, i / 7, {"name": "n%d" % (i * i), "even": i % 2 == 0}] for i in range(400)}
        again = json.loads(json.dumps(table, sort_keys=True, indent=1))
        text = "\n".join(line.rstrip().replace("\t", " ") for line in text.split("\n"))
    print(got, len(again), again == table, "{:>10,d}".format(len(text)))


main(int(sys.argv[1]))
