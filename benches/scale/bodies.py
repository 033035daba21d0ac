"""Bodies of 1 GiB down and up: CPU and memory of the proxy."""

import os
import statistics
import subprocess
import sys

import candidates
import machine
import pair
from candidates import PROXY, Candidate

ROUNDS, GIB = 5, 1 << 30
SINK = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
def serve(stream):
    buffer = bytearray(1 << 20)
    while True:
        head = b""
        while b"\\r\\n\\r\\n" not in head:
            part = stream.recv(65536)
            if not part: return
            head += part
        fields, rest = head.split(b"\\r\\n\\r\\n", 1)
        left = next(int(line.split(b":")[1]) for line in fields.split(b"\\r\\n") if line.lower().startswith(b"content-length")) - len(rest)
        while left:
            left -= stream.recv_into(buffer, min(left, len(buffer)))
        stream.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
while True:
    stream, _ = listener.accept()
    threading.Thread(target=serve, args=(stream,), daemon=True).start()
"""


def curl(row, *more):
    command = ["taskset", "-c", machine.LOAD_CORE, "curl", "-sf", "-o", "/dev/null"]
    for name, value in row.headers.items():
        command += ["-H", f"{name}: {value}"]
    subprocess.run([*command, "-H", "Expect:", *more, f"http://127.0.0.1:{row.port}{row.path}"], check=True)


def main():
    big = os.path.join(machine.folder.name, "big")
    with open(big, "wb") as file:
        file.truncate(GIB)
    os.chmod(machine.folder.name, 0o755)
    source, sink = machine.port(), machine.port()
    candidates.nginx("source", machine.LOAD_CORE, f"listen 127.0.0.1:{source}; sendfile on; root {machine.folder.name}; location / {{ rewrite ^ /big break; }}")
    machine.start(machine.LOAD_CORE, sys.executable, "-c", SINK, str(sink))
    machine.until_open(source)
    machine.until_open(sink)
    print(f"{ROUNDS} transfers of 1 GiB in alternating rounds\n\n| | | seconds of CPU per GiB (min–max) | ÷ nginx | MiB resident before, after |\n|---|---|---|---|---|")
    for kind, app, more in (("down", source, ()), ("up", sink, ("-X", "PUT", "-T", big))):
        number = machine.port()
        server = f"listen 127.0.0.1:{number}; client_max_body_size 0; proxy_request_buffering off; proxy_buffering on; location / {{ {PROXY} proxy_max_temp_file_size 0; }}"
        plain = candidates.nginx(f"big-{kind}", machine.PROXY_CORE, server, candidates.upstream(app))
        machine.until_open(number)
        gateway = pair.gateway(app, opens="team") if kind == "down" else pair.gateway(candidates.app(), opens="team", more=f'[[apps]]\nid = "sink"\naccess = "group:phusers"\nupstream = "http://127.0.0.1:{sink}"\n')
        if kind == "up":
            gateway.path = "/apps/sink/x"
        rows = {"nginx": Candidate(plain, number), "**Ludgate**, group app, session": gateway}
        costs, memory = {name: [] for name in rows}, {name: machine.resident(row.process) for name, row in rows.items()}
        for _ in range(ROUNDS):
            for name, row in rows.items():
                before = sum(machine.cpu(row.process))
                curl(row, *more)
                costs[name].append(sum(machine.cpu(row.process)) - before)
        for name, values in costs.items():
            ratio = statistics.median(one / two for one, two in zip(values, costs["nginx"]))
            after = machine.resident(rows[name].process)
            print(f"| {kind} | {name} | {machine.spread(values, 2)} | {ratio:.2f} | {memory[name] / 1024:.1f}, {after / 1024:.1f} |")


try:
    main()
finally:
    machine.stop_all()
