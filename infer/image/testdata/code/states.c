/* A state machine, whose state is nothing but what its loop sets: nothing checks it before the table. */
static int machine(const char *s) {
	int state = 0, found = 0;
	for (; *s; s++)
		switch (state) {
		case 0:
			if (*s == '/')
				state = 1;
			else if (*s == '"')
				state = 3;
			else if ((*s | 32) >= 'a')
				state = 5;
			break;
		case 1:
			state = *s == '*' ? 2 : 0;
			break;
		case 2:
			if (*s == '*')
				state = 6;
			break;
		case 3:
			if (*s == '\\')
				state = 4;
			else if (*s == '"') {
				state = 0;
				found++;
			}
			break;
		case 4:
			state = 3;
			break;
		case 5:
			if ((*s | 32) < 'a') {
				state = 0;
				found += 2;
			}
			break;
		case 6:
			if (*s == '/') {
				state = 0;
				found += 3;
			} else if (*s != '*')
				state = 2;
			break;
		}
	return found;
}

int states(void) { return machine("int main /* comment * here */ \"str\\\"ing\" foo bar /* x **/ return zap + 12 + \"more\" - last;"); }
