"""CPU and instructions per request, of one data thread and of two.

For the CPU time, gateway and load share both cores.
"""

import os
import re
import statistics
import subprocess

import callgrind
import candidates
import machine
import pair

ROUNDS, SECONDS = 5, 4


def load(row, seconds):
    command = ["wrk", "-t1", "-c32", f"-d{seconds}s", "-H", f"Cookie: {row.headers['Cookie']}"]
    output = subprocess.check_output([*command, f"http://127.0.0.1:{row.port}{row.path}"], text=True)
    return int(re.search(r"(\d+) requests in", output).group(1))


def start_gateway(cores, wrapper=()):
    """Starts one data thread per core in `cores`, then allows all threads both cores."""
    machine.PROXY_CORE = candidates.PROXY_CORE = cores
    row = pair.gateway(APP, wrapper=wrapper)
    for task in os.listdir(f"/proc/{row.process.pid}/task"):
        os.sched_setaffinity(int(task), {0, 1})
    return row


def instructions(cores):
    name = f"threads-{cores[-1]}"
    row = start_gateway(cores, callgrind.wrapper(name))
    load(row, 2)
    return callgrind.per_request(name, row.process, lambda: load(row, 6))


def main():
    rows = {"one": start_gateway("0"), "two": start_gateway("0,1")}
    costs, rates = ({name: [] for name in rows} for _ in range(2))
    for row in rows.values():
        load(row, 1)
    for _ in range(ROUNDS):
        for name, row in rows.items():
            before = sum(machine.cpu(row.process))
            done = load(row, SECONDS)
            costs[name].append((sum(machine.cpu(row.process)) - before) / done * 1e6)
            rates[name].append(done / SECONDS)
    counted = {name: instructions(cores) for name, cores in (("one", "0"), ("two", "0,1"))}
    print("| data threads | µs of CPU per request (min–max) | ÷ one | requests/s | instructions per request | ÷ one |\n|---|---|---|---|---|---|")
    for name, values in costs.items():
        ratio = statistics.median(one / two for one, two in zip(values, costs["one"]))
        print(f"| {name} | {machine.spread(values)} | {ratio:.2f} | {statistics.median(rates[name]):.0f} | {counted[name]:.0f} | {counted[name] / counted['one']:.2f} |")


try:
    APP = candidates.app()
    main()
finally:
    machine.stop_all()
