"""load.py memcached|redis PORT REQUESTS SLEEP: four connections, one set in ten gets; each sleeps SLEEP seconds between requests."""
import socket, sys, threading, time

kind, port, n, sleep = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def request(k, i):
    key = b'key:%d:%03d' % (k, i % 1000)
    if kind == 'memcached':
        return b'set %s 0 0 5\r\nhello\r\n' % key if i % 10 == 0 else b'get %s\r\n' % key
    if i % 10 == 0:
        return b'*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$5\r\nhello\r\n' % (len(key), key)
    return b'*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n' % (len(key), key)

def run(k):
    s = socket.create_connection(('127.0.0.1', port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(n // 4):
        s.sendall(request(k, i))
        s.recv(4096)
        if sleep:
            time.sleep(sleep)
    s.close()

threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
