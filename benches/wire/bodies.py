"""10 GiB up and 10 GiB down, each through one stream: throughput, and memory of the gateway."""

import socket
import sys
import threading
import time

from parts import Gateways

SIZE = 10 << 30
BLOCK = b"\0" * (1 << 20)


def serve(listener):
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve_connection, args=(stream,), daemon=True).start()


def serve_connection(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        data += stream.recv(65536)
    head, rest = data.split(b"\r\n\r\n", 1)
    if head.startswith(b"GET"):
        stream.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n".encode())
        for _ in range(SIZE // len(BLOCK)):
            stream.sendall(BLOCK)
    else:
        got, buffer = len(rest), bytearray(1 << 20)
        while got < SIZE and (read := stream.recv_into(buffer)):
            got += read
        answer = str(got).encode()
        stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
    stream.close()


def transfer(gateways, up):
    peak, stop = [0], threading.Event()

    def watch():
        while not stop.wait(0.05):
            peak[0] = max(peak[0], gateways.resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", gateways.port)) as stream:
        host = f"Host: 127.0.0.1:{gateways.port}\r\nConnection: close\r\n"
        if up:
            stream.sendall(f"POST /apps/app/x HTTP/1.1\r\n{host}Content-Length: {SIZE}\r\n\r\n".encode())
            for _ in range(SIZE // len(BLOCK)):
                stream.sendall(BLOCK)
            answer = b""
            while part := stream.recv(65536):
                answer += part
            complete = answer.endswith(str(SIZE).encode())
        else:
            stream.sendall(f"GET /apps/app/x HTTP/1.1\r\n{host}\r\n".encode())
            got, buffer = 0, bytearray(1 << 20)
            while read := stream.recv_into(buffer):
                got += read
            complete = got >= SIZE
    seconds = time.monotonic() - begun
    stop.set()
    watcher.join()
    return complete, seconds, peak[0]


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    gateways = Gateways(sys.argv[1], listener.getsockname()[1], '[limits]\nstop_grace = "0s"\n')
    gateways.start_first()
    before = gateways.resident()
    for up in (True, False):
        complete, seconds, peak = transfer(gateways, up)
        print(
            f"bodies: 10 GiB {'up' if up else 'down'}: {'complete' if complete else 'INCOMPLETE'}, {SIZE / seconds / (1 << 30):.2f} GiB/s, "
            f"resident {before / 1048576:.1f} MiB before, {peak / 1048576:.1f} MiB at most"
        )
    gateways.stop()
    listener.close()


main()
