"""CPU time per request of Ludgate and of other proxies; see `run`.

Uses only Python's standard library.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import time

import candidates as peers
import people
from candidates import Candidate
from machine import CONNECTIONS, PROXY_CORE, cpu, load, port, spread, stop_all, until_open

NAMES = {
    "relay": "bare relay: copies bytes between two sockets",
    "bare": "bare hyper: one thread, its own pool, no inspection of requests",
    "nginx": "nginx, plain `proxy_pass`",
    "haproxy": "HAProxy, http mode",
    "public": "**Ludgate**, public app",
    "session": "**Ludgate**, group app, session",
    "bearer": "**Ludgate**, group app, bearer token",
    "release-public": "Ludgate, `cargo build --release`, public app",
    "release-session": "Ludgate, `cargo build --release`, group app, session",
    "release-bearer": "Ludgate, `cargo build --release`, group app, bearer token",
    "pingora": "pingora, plain",
    "nginx-auth": "nginx, `auth_request`",
    "envoy": "Envoy, plain router",
    "apache": "Apache with mod_auth_openidc, session",
    "chp": "configurable-http-proxy",
}
CORE = ["relay", "bare", "nginx", "haproxy", "public", "session", "bearer", "release-session"]
# The rows without a prefix are the program of `make optimized`, which is also in the image; LUDGATE names another.
PROGRAMS = {"": os.environ.get("LUDGATE", "target/optimized/ludgate"), "release-": "target/release/ludgate"}
# The rows of Ludgate: the prefix of the program, and the case.
LUDGATE = {prefix + case: (prefix, case) for prefix in PROGRAMS for case in ("public", "session", "bearer")}
NEEDS = {
    "haproxy": "haproxy", "envoy": "envoy", "apache": "apache2", "chp": "configurable-http-proxy", "pingora": "pingora-plain",
}
VERSIONS = [["nginx", "-v"], ["haproxy", "-v"], ["apache2", "-v"], ["envoy", "--version"], ["configurable-http-proxy", "--version"]]


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="only relay, bare hyper, nginx, HAProxy and Ludgate; under five minutes")
    parser.add_argument("--smoke", action="store_true", help="the same rows in one short round; under one minute")
    parser.add_argument("--only", help="only these rows, separated by commas: " + ", ".join(NAMES))
    parser.add_argument("--log", action="store_true", help="write request logs in Ludgate and the peers")
    return parser.parse_args()


def is_installed(name):
    if name in LUDGATE:
        return os.access(PROGRAMS[LUDGATE[name][0]], os.X_OK)
    return name not in NEEDS or peers.found(NEEDS[name]) is not None


class Ludgate:
    """One build of Ludgate, for all its rows."""

    def __init__(self, prefix, app, issuer, number, log):
        self.issuer, self.port = issuer, number
        self.process = peers.ludgate(app, issuer, number, log, program=PROGRAMS[prefix])
        until_open(number)
        # The provider's metadata and keys.
        time.sleep(1)

    def row(self, case):
        if case == "public":
            return Candidate(self.process, self.port, "/apps/open/x", {})
        headers = people.signed_in(self.port, "/apps/team/x") if case == "session" else people.token(self.issuer, redirect(self.port))
        return Candidate(self.process, self.port, "/apps/team/x", headers)


def redirect(number):
    return f"http://127.0.0.1:{number}/oauth2/callback"


def start(wanted, log):
    app = peers.app()
    rows, builds = {}, {}
    ports, apache_port = {prefix: port() for prefix in PROGRAMS}, port()
    issuer = None
    if "apache" in wanted or any(name in LUDGATE for name in wanted):
        issuer = people.provider(*(redirect(number) for number in (*ports.values(), apache_port)))
    for name in wanted:
        if name in LUDGATE:
            prefix, case = LUDGATE[name]
            if prefix not in builds:
                builds[prefix] = Ludgate(prefix, app, issuer, ports[prefix], log)
            rows[name] = builds[prefix].row(case)
        elif name == "apache":
            rows[name] = peers.apache(app, issuer, apache_port)
        else:
            rows[name] = peers.plain(name, app, log)
        until_open(rows[name].port)
    return rows


def main():
    options = parse_options()
    for needed in ("nginx", "wrk", "taskset", "node"):
        if not shutil.which(needed):
            raise SystemExit(f"{needed} is needed and not installed")
    wanted = options.only.split(",") if options.only else CORE if options.quick or options.smoke else list(NAMES)
    missing = [name for name in wanted if not is_installed(name)]
    if missing:
        print(f"not installed, so skipped: {', '.join(missing)} (make optimized, benches/peers/install)\n")
    rounds, seconds = (1, 2) if options.smoke else (5, 3) if options.quick else (5, 4)
    rows = start([name for name in wanted if is_installed(name)], options.log)
    for row in rows.values():
        load(row.port, row.path, row.headers, 1)
    users, systems, rates = ({name: [] for name in rows} for _ in range(3))
    for _ in range(rounds):
        for name, row in rows.items():
            before = cpu(row.process)
            done = load(row.port, row.path, row.headers, seconds)
            after = cpu(row.process)
            users[name].append((after[0] - before[0]) / done * 1e6)
            systems[name].append((after[1] - before[1]) / done * 1e6)
            rates[name].append(done / seconds)
    show(rows, users, systems, rates, f"{rounds} rounds of {seconds} s each, alternating")


def show(rows, users, systems, rates, description):
    costs = {name: [user + system for user, system in zip(users[name], systems[name])] for name in rows}

    def ratio(name, other):
        if other not in rows:
            return "–"
        # The ratio of each round, because other load on the machine affects both values of a round.
        return f"{statistics.median(one / two for one, two in zip(costs[name], costs[other])):.2f}"

    print(f"{description}; {CONNECTIONS} connections; proxy on core {PROXY_CORE}, app and load on the other\n")
    print("| | µs of CPU per request (min–max) | user + system | ÷ relay | ÷ bare hyper | ÷ nginx | requests/s |")
    print("|---|---|---|---|---|---|---|")
    for name in rows:
        parts = f"{statistics.median(users[name]):.1f} + {statistics.median(systems[name]):.1f}"
        ratios = " | ".join(ratio(name, other) for other in ("relay", "bare", "nginx"))
        print(f"| {NAMES[name]} | {spread(costs[name])} | {parts} | {ratios} | {statistics.median(rates[name]):.0f} |")
    commands = [[peers.found(command[0]), *command[1:]] for command in VERSIONS if peers.found(command[0])]
    outputs = [subprocess.run(command, capture_output=True, text=True) for command in commands]
    print("\n" + " · ".join((one.stdout + one.stderr).strip().splitlines()[0] for one in outputs))


if __name__ == "__main__":
    try:
        main()
    finally:
        stop_all()
