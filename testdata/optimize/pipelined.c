// pipelined SOCKET TIMES FILE sends a file of requests so many times over one connection, does not wait for answers in between, and prints
// how many bytes came back until the other end closed it. With TIMES 0 it prints the answers to one.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
	static char requests[1 << 22], answers[1 << 20];
	static const char last[] = "GET /pages/1.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	FILE *f = argc == 4 ? fopen(argv[3], "r") : NULL;
	if (!f || strlen(argv[1]) >= sizeof to.sun_path)
		return 2;
	size_t size = fread(requests, 1, sizeof requests - sizeof last, f);
	long times = atol(argv[2]), round = 0;
	int show = times == 0;
	unsigned long got = 0;
	strcpy(to.sun_path, argv[1]);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(s, (struct sockaddr *)&to, sizeof to) != 0)
		return 1;
	if (show)
		times = 1;
	size_t sent = 0, end = size;
	for (;;) {
		if (sent == end && round < times) {
			sent = 0;
			if (++round == times)
				memcpy(requests, last, end = sizeof last - 1);
		}
		struct pollfd p = {s, POLLIN | (sent < end ? POLLOUT : 0), 0};
		if (poll(&p, 1, 10000) != 1)
			return 3;
		if (p.revents & POLLOUT) {
			ssize_t n = send(s, requests + sent, end - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n > 0)
				sent += n;
		}
		if (p.revents & (POLLIN | POLLHUP)) {
			ssize_t n = read(s, answers, sizeof answers);
			if (n < 0)
				return 4;
			if (n == 0)
				break;
			got += n;
			if (show)
				fwrite(answers, 1, n, stdout);
		}
	}
	if (!show)
		printf("%lu bytes\n", got);
	return !(sent == end && round == times);
}
