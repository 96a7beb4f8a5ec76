#define _GNU_SOURCE
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/epoll.h>
__attribute__((noinline)) unsigned parse(const char*b,int n){ unsigned h=2166136261u; for(int i=0;i<n;i++) h=(h^b[i])*16777619u; return h;}
int main(int c,char**v){ long n=atol(v[1]); int sz=atoi(v[2]); int s[2]; socketpair(AF_UNIX,SOCK_STREAM,0,s); char b[4096]={0}; unsigned h=0;
  if(!fork()){ close(s[0]); int e=epoll_create1(0); struct epoll_event ev={.events=EPOLLIN}; epoll_ctl(e,EPOLL_CTL_ADD,s[1],&ev);
    for(;;){ struct epoll_event o[8]; epoll_wait(e,o,8,-1); long r=read(s[1],b,sizeof b); if(r<=0) _exit(0); h+=parse(b,r); *(unsigned*)b=h; write(s[1],b,r);} }
  close(s[1]);
  for(long i=0;i<n;i++){ write(s[0],b,sz); long r=0; while(r<sz) r+=read(s[0],b+r,sizeof b-r); h+=parse(b,64);} 
  close(s[0]); wait(0); printf("%u\n",h); }
