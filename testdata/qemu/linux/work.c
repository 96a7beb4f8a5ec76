// work.c: a program that has Linux work: `work N` does each of its jobs so often that they take about as long as one
// another, N rounds of them. As init, its arguments are those of the kernel's command line behind "--". measure.sh has it
// counted between begin and end, which lie where no other program has code.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((section(".begin"), noinline)) void begin(void) { __asm__ volatile(""); }
__attribute__((section(".end"), noinline)) void end(void) { __asm__ volatile(""); }

static void must(long r, const char *what)
{
	if (r < 0) {
		perror(what);
		exit(1);
	}
}

// files makes, reads, lists and removes files.
static void files(int n)
{
	char name[64], text[4000];
	struct stat st;
	memset(text, 'x', sizeof text);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "/tmp/d%d", i % 7);
		mkdir(name, 0755);
		snprintf(name, sizeof name, "/tmp/d%d/f%d", i % 7, i);
		int fd = open(name, O_RDWR | O_CREAT, 0644);
		must(fd, name);
		must(write(fd, text, sizeof text - i % 3000), "write");
		must(fstat(fd, &st), "fstat");
		must(lseek(fd, 0, SEEK_SET), "lseek");
		while (read(fd, text, 512) > 0)
			;
		close(fd);
		if (i % 8 == 7) {
			snprintf(name, sizeof name, "/tmp/d%d", i % 7);
			DIR *d = opendir(name);
			for (struct dirent *e; d && (e = readdir(d));) {
				char path[400];
				snprintf(path, sizeof path, "%s/%s", name, e->d_name);
				if (!stat(path, &st) && S_ISREG(st.st_mode))
					unlink(path);
			}
			if (d)
				closedir(d);
		}
		access("/tmp/none", R_OK);
	}
}

// pipes has two processes answer each other.
static void pipes(int n)
{
	int a[2], b[2];
	char c[64] = "";
	must(pipe(a), "pipe");
	must(pipe(b), "pipe");
	pid_t child = fork();
	if (!child) {
		close(a[1]);
		while (read(a[0], c, sizeof c) > 0)
			if (write(b[1], c, sizeof c) < 0)
				break;
		_exit(0);
	}
	close(a[0]);
	for (int i = 0; i < n; i++) {
		must(write(a[1], c, 1 + i % sizeof c), "write");
		must(read(b[0], c, sizeof c), "read");
	}
	close(a[1]);
	close(b[0]);
	close(b[1]);
	waitpid(child, NULL, 0);
}

// memory maps, touches and unmaps pages.
static void memory(int n)
{
	for (int i = 0; i < n; i++) {
		size_t size = 4096 * (1 + i % 32);
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			must(-1, "mmap");
		for (size_t at = 0; at < size; at += 4096)
			p[at] = 1;
		if (i % 4 == 0)
			mprotect(p, size, PROT_READ);
		munmap(p, size);
	}
}

// processes forks, and runs this program again.
static void processes(int n)
{
	for (int i = 0; i < n; i++) {
		pid_t child = vfork();
		if (!child) {
			execl("/work", "work", "none", NULL);
			_exit(1);
		}
		must(child, "vfork");
		waitpid(child, NULL, 0);
		if (!(child = fork()))
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

// network has a connection within the machine answer, by epoll.
static void network(int n)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof at;
	int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), e = epoll_create1(0);
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK};
	char buf[1500] = "";
	ioctl(s, SIOCSIFFLAGS, &lo);
	if (bind(s, (void *)&at, sizeof at) || listen(s, 8) || getsockname(s, (void *)&at, &size) || connect(c, (void *)&at, size)) {
		perror("network");
		return;
	}
	int d = accept(s, NULL, NULL);
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = d};
	epoll_ctl(e, EPOLL_CTL_ADD, d, &ev);
	for (int i = 0; i < n; i++) {
		must(send(c, buf, 1 + 37 * i % sizeof buf, 0), "send");
		if (epoll_wait(e, &ev, 1, 1000) == 1)
			must(recv(d, buf, sizeof buf, 0), "recv");
		if (i % 3 == 0)
			getppid();
	}
	close(c);
	close(d);
	close(s);
	close(e);
}

static void work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		files(60);
		pipes(150);
		memory(40);
		processes(2);
		network(100);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "none"))
		return 0;
	int rounds = argc > 1 ? atoi(argv[argc - 1]) : 1;
	int first = getpid() == 1;
	if (first) {
		mkdir("/tmp", 0777);
		mount("tmpfs", "/tmp", "tmpfs", 0, "");
	}
	work(1); // what is done once
	begin();
	work(rounds);
	end();
	printf("work done\n");
	fflush(stdout);
	if (first) {
		sync();
		reboot(RB_AUTOBOOT); // qemu -no-reboot ends
	}
	return 0;
}
