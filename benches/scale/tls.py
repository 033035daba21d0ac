"""CPU per request with TLS 1.3: HTTP/2, and HTTP/1.1 with a new connection for each request."""

import re
import statistics
import subprocess

import candidates
import machine
import pair
from candidates import PROXY, Candidate

ROUNDS, SECONDS = 5, 4


def http2(row):
    command = ["taskset", "-c", machine.LOAD_CORE, "h2load", "-c16", "-m8", f"-D{SECONDS}"]
    for name, value in row.headers.items():
        command += ["-H", f"{name}: {value}"]
    output = subprocess.check_output([*command, f"https://127.0.0.1:{row.port}{row.path}"], text=True)
    done, failed = (int(re.search(rf"(\d+) {what}", output).group(1)) for what in ("succeeded", "failed"))
    if failed or int(re.search(r"status codes: (\d+) 2xx", output).group(1)) < done:
        raise SystemExit(output)
    return done


def reconnect(row):
    headers = {**row.headers, "Connection": "close"}
    command = ["taskset", "-c", machine.LOAD_CORE, "wrk", "-t1", "-c16", f"-d{SECONDS}s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    output = subprocess.check_output([*command, f"https://127.0.0.1:{row.port}{row.path}"], text=True)
    if re.search(r"Non-2xx or 3xx responses: (\d+)", output):
        raise SystemExit(output)
    return int(re.search(r"(\d+) requests in", output).group(1))


def main():
    app = candidates.app()
    key, chain = pair.certificate()
    number = machine.port()
    server = f"listen 127.0.0.1:{number} ssl http2; http2_max_requests 100000000; ssl_certificate {chain}; ssl_certificate_key {key};"
    more = candidates.upstream(app) + " ssl_protocols TLSv1.3; ssl_session_cache off; ssl_session_tickets off;"
    plain = candidates.nginx("tls", machine.PROXY_CORE, f"{server} location / {{ {PROXY} }}", more)
    tls = f'tls = {{ certificate = "{chain}", key = "{key}" }}\n'
    rows = {
        "nginx, plain `proxy_pass`": Candidate(plain, number),
        "**Ludgate**, group app, session": pair.gateway(app, listen=tls, scheme="https"),
    }
    machine.until_open(number)
    print(f"{ROUNDS} rounds of {SECONDS} s, alternating; TLS 1.3, P-256\n")
    print("| | | µs of CPU per request (min–max) | ÷ nginx |\n|---|---|---|---|")
    for kind, load in (("HTTP/2, 16 connections of 8 streams", http2), ("HTTP/1.1, a new connection for each request", reconnect)):
        costs = {name: [] for name in rows}
        for _ in range(ROUNDS):
            for name, row in rows.items():
                before = sum(machine.cpu(row.process))
                done = load(row)
                costs[name].append((sum(machine.cpu(row.process)) - before) / done * 1e6)
        for name, values in costs.items():
            ratio = statistics.median(one / two for one, two in zip(values, costs["nginx, plain `proxy_pass`"]))
            print(f"| {kind} | {name} | {machine.spread(values)} | {ratio:.2f} |")


try:
    main()
finally:
    machine.stop_all()
