#include "_cgo_export.h"

int half(int x) { return x / 2; }

int again(int x) { return twice(x) + 1; }
