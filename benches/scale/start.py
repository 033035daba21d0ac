"""Time until the first response, idle memory, and size of the binary."""

import os
import socket
import statistics
import time

import candidates
import machine

ROUNDS = 20


def first_response(app, number):
    began = time.monotonic()
    process = candidates.ludgate(app, None, number)
    while True:
        try:
            with socket.create_connection(("127.0.0.1", number)) as stream:
                stream.sendall(f"GET /apps/open/x HTTP/1.1\r\nHost: 127.0.0.1:{number}\r\n\r\n".encode())
                if stream.recv(4096).startswith(b"HTTP/1.1 200"):
                    return (time.monotonic() - began) * 1000, process
        except ConnectionError:
            time.sleep(0.0005)


def main():
    app = candidates.app()
    times, memory = [], []
    for _ in range(ROUNDS):
        took, process = first_response(app, machine.port())
        time.sleep(0.3)
        times.append(took)
        memory.append(machine.resident(process) / 1024)
        process.terminate()
        process.wait(20)
    size = os.path.getsize(os.environ.get("LUDGATE", "target/release/ludgate")) / (1 << 20)
    print(f"| | |\n|---|---|\n| first response | {machine.spread(times)} ms in {ROUNDS} starts |")
    print(f"| idle memory | {machine.spread(memory)} MiB |\n| binary | {size:.1f} MiB |")


try:
    main()
finally:
    machine.stop_all()
