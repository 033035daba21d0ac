"""CPU per request of the gate and of its peers; see `run`. Python's own library only."""

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
    "bare": "bare hyper: one thread, its own pool, nothing looked at",
    "nginx": "nginx, plain `proxy_pass`",
    "haproxy": "HAProxy, http mode",
    "public": "**Ludgate**, public app",
    "session": "**Ludgate**, group app, session",
    "bearer": "**Ludgate**, group app, bearer token",
    "pingora": "pingora, plain",
    "nginx-auth": "nginx, `auth_request`",
    "envoy": "Envoy, plain router",
    "apache": "Apache with mod_auth_openidc, session",
    "chp": "configurable-http-proxy",
}
CORE = ["relay", "bare", "nginx", "haproxy", "public", "session", "bearer"]
NEEDS = {
    "haproxy": "haproxy", "envoy": "envoy", "apache": "apache2", "chp": "configurable-http-proxy", "pingora": "pingora-plain",
}
VERSIONS = [["nginx", "-v"], ["haproxy", "-v"], ["apache2", "-v"], ["envoy", "--version"], ["configurable-http-proxy", "--version"]]


def options():
    asked = argparse.ArgumentParser()
    asked.add_argument("--quick", action="store_true", help="the floor, nginx, HAProxy and the gate; under five minutes")
    asked.add_argument("--smoke", action="store_true", help="the same, one short round; under one minute")
    asked.add_argument("--only", help="these rows, separated by commas: " + ", ".join(NAMES))
    asked.add_argument("--log", action="store_true", help="with request logs, on both sides")
    return asked.parse_args()


def there(name):
    return name not in NEEDS or peers.found(NEEDS[name]) is not None


def start(wanted, log):
    app = peers.app()
    rows = {}
    gate, apache = port(), port()
    issuer = None
    if {"session", "bearer", "public", "apache"} & set(wanted):
        redirect = f"http://127.0.0.1:{gate}/oauth2/callback"
        issuer = people.provider(redirect, f"http://127.0.0.1:{apache}/oauth2/callback")
    for name in wanted:
        if name in ("public", "session", "bearer"):
            if not any(row in rows for row in ("public", "session", "bearer")):
                process = peers.ludgate(app, issuer, gate, log)
                until_open(gate)
                time.sleep(1)
            path, headers = {
                "public": lambda: ("/apps/open/x", {}),
                "session": lambda: ("/apps/team/x", people.signed_in(gate, "/apps/team/x")),
                "bearer": lambda: ("/apps/team/x", people.token(issuer, redirect)),
            }[name]()
            rows[name] = Candidate(process, gate, path, headers)
        elif name == "apache":
            rows[name] = peers.apache(app, issuer, apache)
        else:
            rows[name] = peers.plain(name, app, log)
        until_open(rows[name].number)
    return rows


def main():
    asked = options()
    for needed in ("nginx", "wrk", "taskset", "node"):
        if not shutil.which(needed):
            raise SystemExit(f"{needed} is needed and not there")
    wanted = asked.only.split(",") if asked.only else CORE if asked.quick or asked.smoke else list(NAMES)
    missing = [name for name in wanted if not there(name)]
    if missing:
        print(f"not there, and left out: {', '.join(missing)} (benches/peers/install)\n")
    rounds, seconds = (1, 2) if asked.smoke else (5, 3) if asked.quick else (5, 4)
    rows = start([name for name in wanted if there(name)], asked.log)
    for row in rows.values():
        load(row.number, row.path, row.headers, 1)
    users, systems, rates = ({name: [] for name in rows} for _ in range(3))
    for _ in range(rounds):
        for name, row in rows.items():
            before = cpu(row.process)
            done = load(row.number, row.path, row.headers, seconds)
            after = cpu(row.process)
            users[name].append((after[0] - before[0]) / done * 1e6)
            systems[name].append((after[1] - before[1]) / done * 1e6)
            rates[name].append(done / seconds)
    show(rows, users, systems, rates, f"{rounds} rounds of {seconds} s each, taking turns")


def show(rows, users, systems, rates, how):
    costs = {name: [user + system for user, system in zip(users[name], systems[name])] for name in rows}

    def ratio(name, other):
        if other not in rows:
            return "–"
        # Round by round: what disturbs the machine for a while disturbs both.
        return f"{statistics.median(one / two for one, two in zip(costs[name], costs[other])):.2f}"

    print(f"{how}; {CONNECTIONS} connections; proxy on core {PROXY_CORE}, app and load on the other\n")
    print("| | µs of CPU a request (min–max) | user + system | ÷ relay | ÷ bare hyper | ÷ nginx | requests/s |")
    print("|---|---|---|---|---|---|---|")
    for name in rows:
        parts = f"{statistics.median(users[name]):.1f} + {statistics.median(systems[name]):.1f}"
        ratios = " | ".join(ratio(name, other) for other in ("relay", "bare", "nginx"))
        print(f"| {NAMES[name]} | {spread(costs[name])} | {parts} | {ratios} | {statistics.median(rates[name]):.0f} |")
    there_too = [[peers.found(command[0]), *command[1:]] for command in VERSIONS if peers.found(command[0])]
    said = [subprocess.run(command, capture_output=True, text=True) for command in there_too]
    print("\n" + " · ".join((one.stdout + one.stderr).strip().splitlines()[0] for one in said))


if __name__ == "__main__":
    try:
        main()
    finally:
        stop_all()
