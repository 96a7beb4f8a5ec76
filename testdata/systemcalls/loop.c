#define _GNU_SOURCE
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/futex.h>
static unsigned work(unsigned s, int n){ for(int i=0;i<n;i++) s = s*1664525u+1013904223u ^ (s>>7); return s; }
__attribute__((noinline)) unsigned dowork(unsigned s, int n){ return work(s,n);}
__attribute__((noinline)) long do_read(int fd, char*b){ return read(fd,b,0);}
__attribute__((noinline)) long do_write(int fd, char*b){ return write(fd,b,1);}
__attribute__((noinline)) long do_getppid(void){ return getppid();}
__attribute__((noinline)) long do_futex(int *w){ return syscall(SYS_futex,w,FUTEX_WAKE_PRIVATE,1,0,0,0);}
__attribute__((noinline)) long do_epoll(int e){ struct epoll_event ev[4]; return epoll_wait(e,ev,4,0);}
__attribute__((noinline)) long do_fault(void){ char*p=mmap(0,16*4096,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); for(int i=0;i<16;i++) p[i*4096]=1; munmap(p,16*4096); return 0;}
int main(int c,char**v){
  char*k=v[1]; long n=atol(v[2]); int w=atoi(v[3]);
  char b[64]; int z=open("/dev/zero",O_RDONLY), nu=open("/dev/null",O_WRONLY), e=epoll_create1(0), f=0; unsigned s=1; long r=0;
  if(!strcmp(k,"read")) for(long i=0;i<n;i++){ r+=do_read(z,b); if(w) s=dowork(s,w);}
  else if(!strcmp(k,"write")) for(long i=0;i<n;i++){ r+=do_write(nu,b); if(w) s=dowork(s,w);}
  else if(!strcmp(k,"getppid")) for(long i=0;i<n;i++){ r+=do_getppid(); if(w) s=dowork(s,w);}
  else if(!strcmp(k,"futex")) for(long i=0;i<n;i++){ r+=do_futex(&f); if(w) s=dowork(s,w);}
  else if(!strcmp(k,"epoll")) for(long i=0;i<n;i++){ r+=do_epoll(e); if(w) s=dowork(s,w);}
  else if(!strcmp(k,"fault")) for(long i=0;i<n;i++){ r+=do_fault(); if(w) s=dowork(s,w);}
  printf("%ld %u\n",r,s); return 0;
}
