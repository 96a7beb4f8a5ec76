enum { REGS = 32, VWORDS = 2 };
#include "walk.h"
