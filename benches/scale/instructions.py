"""Instructions of the gateway per request, counted by callgrind."""

import re
import subprocess

import callgrind
import candidates
import machine
import pair


def http1(row, seconds=6):
    """Sends requests on 16 kept connections and returns their number."""
    return machine.load(row.port, row.path, row.headers, seconds)


def http2(row, requests=4_000):
    """Sends requests on one connection of 8 streams and returns their number."""
    command = ["taskset", "-c", machine.LOAD_CORE, "h2load", f"-n{requests}", "-c1", "-m8"]
    for name, value in row.headers.items():
        command += ["-H", f"{name}: {value}"]
    output = subprocess.check_output([*command, f"https://127.0.0.1:{row.port}{row.path}"], text=True)
    if int(re.search(r"status codes: (\d+) 2xx", output).group(1)) != requests:
        raise SystemExit(output)
    return requests


def main():
    app = candidates.app()
    key, chain = pair.certificate()
    tls = {"listen": f'tls = {{ certificate = "{chain}", key = "{key}" }}\n', "scheme": "https"}
    print("| | instructions per request |\n|---|---|")
    for name, description, load, more in (
        ("session", "group app, session", http1, {}),
        ("log", "the same with the request log", http1, {"log": True}),
        ("http2", "the same with TLS 1.3 and HTTP/2, one connection of 8 streams, no request log", http2, tls),
    ):
        row = pair.gateway(app, wrapper=callgrind.wrapper(name), **more)
        # The first requests make what later ones use again.
        load(row)
        count = callgrind.per_request(name, row.process, lambda: load(row))
        print(f"| {description} | {count:,.0f} |", flush=True)


try:
    main()
finally:
    machine.stop_all()
