"""CPU per request with 100,000 apps and with 10, and a change of one app under load."""

import os
import re
import statistics
import subprocess
import time
import urllib.request

import candidates
import machine
import pair

ROUNDS, SECONDS = 5, 4


def filler(many):
    return "".join(f'[[apps]]\nid = "app-{number}"\naccess = "group:phusers"\nupstream = "http://127.0.0.1:9"\n' for number in range(many))


def main():
    app = candidates.app()
    admin = machine.port()
    few = pair.gateway(app, more=filler(8))
    many = pair.gateway(app, more=filler(99_998), admin=admin)
    costs = {"10 apps": [], "100,000 apps": []}
    for _ in range(ROUNDS):
        for name, row in (("10 apps", few), ("100,000 apps", many)):
            before = sum(machine.cpu(row.process))
            done = machine.load(row.port, row.path, row.headers, SECONDS)
            costs[name].append((sum(machine.cpu(row.process)) - before) / done * 1e6)
    print("| | µs of CPU per request (min–max) | ÷ 10 apps | MiB resident |\n|---|---|---|---|")
    for (name, values), row in zip(costs.items(), (few, many)):
        ratio = statistics.median(one / two for one, two in zip(values, costs["10 apps"]))
        print(f"| {name} | {machine.spread(values)} | {ratio:.2f} | {machine.resident(row.process) / 1024:.0f} |")
    # Adds an app to the file under load. Ludgate checks the file every two seconds.
    path = os.path.join(machine.folder.name, f"ludgate-{many.port}.toml")
    with open(path) as file:
        text = file.read()
    command = ["taskset", "-c", machine.LOAD_CORE, "wrk", "-t1", "-c16", "-d20s", "--latency", "-H", f"Cookie: {many.headers['Cookie']}"]
    load = subprocess.Popen([*command, f"http://127.0.0.1:{many.port}{many.path}"], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    with open(path + ".new", "w") as file:
        file.write(text + '[[apps]]\nid = "one-more"\naccess = "public"\nupstream = "http://127.0.0.1:%d"\n' % app)
    os.rename(path + ".new", path)
    began = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{many.port}/apps/one-more/x") as answer:
                assert answer.status == 200
                break
        except urllib.error.HTTPError:
            time.sleep(0.01)
    took = time.monotonic() - began
    output = load.communicate()[0]
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: .*", output)
    done = re.search(r"(\d+) requests in", output).group(1)
    worst = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", output).group(1)
    failed = bad.group(0) if bad else "none failed"
    when = f"took effect after {took:.2f} s (the file is checked every 2 s and read after two equal checks)"
    print(f"\nOne app added to 100,000 in the file: {when}; {done} requests under load, {failed}, slowest {worst}")


try:
    main()
finally:
    machine.stop_all()
