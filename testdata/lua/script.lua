-- What main.go runs: calls, tables, methods, strings and a sort.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local words = {}
for w in ("the quick brown fox jumps over the lazy dog"):gmatch("%a+") do
  words[#words + 1] = w
end
local Point = {}
Point.__index = Point
function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end
function Point:add(o) return Point.new(self.x + o.x, self.y + o.y) end
function work()
  local sum, p = fib(15), Point.new(0, 0)
  local seen = {}
  for i = 1, 300 do
    local w = words[i % #words + 1]
    seen[w] = (seen[w] or 0) + i
    p = p:add(Point.new(i, -i))
    sum = sum + #string.format("%s:%d", w:upper(), i)
  end
  local list = {}
  for i = 1, 200 do list[i] = (i * 7919) % 1009 end
  table.sort(list, function(a, b) return a < b end)
  return sum + p.x + list[1] + seen.fox
end
