/* Seeds of FuzzOpen: a shared library with stubs, a label, data in code, aliases
   and a cold part. Built by build.sh. */
int outside(int);
static __attribute__((noinline)) int twice(int x) { return outside(x) + outside(x + 1); }
int exported(int x) { return twice(x) * 3; }
int alias(int x) __attribute__((alias("exported")));
int __weak_alias(int x) __attribute__((weak, alias("exported")));
static __attribute__((noinline, cold)) int never(int x) { return outside(x - 1); }
int (*const pointer)(int) = never;
