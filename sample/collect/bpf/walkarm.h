// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

enum { REGS = 32, VWORDS = 2 };
#include "walk.h"
