// jsonnetbench N evaluates a program of Jsonnet's N times, and as often one that
// fails deep inside, which libjsonnet reports by a C++ exception.
#include <cstdio>
#include <cstdlib>
#include <string>
extern "C" {
#include "libjsonnet.h"
}

static const char *good = R"(
local service(i) = {
  local s = self,
  name:: 'service-%03d' % i,
  replicas: 1 + i % 5,
  env: { ['VAR_' + k]: std.asciiUpper(s.name) + k for k in ['a', 'b', 'c'] },
  ports: [{ port: 8000 + p, target: s.name + ':' + p } for p in std.range(0, 4)],
};
local tuned(i) = service(i) + { replicas+: 2, env+: { DEBUG: std.toString(i % 2 == 0) } };
local all = [if i % 3 == 0 then tuned(i) else service(i) for i in std.range(1, 6)];
{
  services: { [s.name]: s for s in all },
  sorted: std.sort([std.length(std.manifestJsonEx(s, '  ')) for s in all]),
  total: std.foldl(function(a, s) a + s.replicas, all, 0),
  words: std.join(' ', std.split(std.strReplace('one two three four', 'o', '00'), ' ')),
}
)";
static const char *bad = R"(
local f(n) = if n == 0 then error 'bottom' else f(n - 1) + 1;
{ deep: [f(i) for i in std.range(1, 12)] }
)";

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	size_t bytes = 0;
	for (int n = std::atoi(argv[1]); n > 0; n--) {
		for (const char *program : {good, bad}) {
			JsonnetVm *vm = jsonnet_make();
			int failed = 0;
			char *out = jsonnet_evaluate_snippet(vm, "bench", program, &failed);
			if (failed != (program == bad)) {
				std::fputs(out, stderr);
				return 1;
			}
			bytes += std::string(out).size();
			jsonnet_realloc(vm, out, 0);
			jsonnet_destroy(vm);
		}
	}
	std::printf("%zu\n", bytes);
}
