"""p99 of Ludgate and of nginx at half of nginx's highest rate."""

import os
import statistics
import subprocess

import candidates
import machine
import pair

ROUNDS, SECONDS, CLIENTS = 5, 5, 64


def paced(row, rate):
    """The sorted latencies at this request rate, in microseconds."""
    log = os.path.join(machine.folder.name, "paced.log")
    if os.path.exists(log):
        os.remove(log)
    command = ["taskset", "-c", machine.LOAD_CORE, "h2load", "--h1", f"-c{CLIENTS}", f"--rps={rate / CLIENTS:.2f}", f"-D{SECONDS}"]
    for name, value in row.headers.items():
        command += ["-H", f"{name}: {value}"]
    subprocess.run([*command, f"--log-file={log}", f"http://127.0.0.1:{row.port}{row.path}"], check=True, capture_output=True)
    with open(log) as lines:
        answers = [line.split("\t") for line in lines]
    bad = [answer for answer in answers if answer[1] != "200"]
    if bad:
        raise SystemExit(f"{len(bad)} of {len(answers)} responses were not 200")
    return sorted(int(answer[2]) for answer in answers)


def main():
    app = candidates.app()
    rows = {"nginx, plain `proxy_pass`": candidates.plain("nginx", app), "**Ludgate**, group app, session": pair.gateway(app)}
    plain = next(iter(rows.values()))
    machine.until_open(plain.port)
    peak = max(machine.load(plain.port, plain.path, {}, 3) / 3 for _ in range(3))
    seen = {name: {"p50": [], "p99": [], "p99.9": []} for name in rows}
    for _ in range(ROUNDS):
        for name, row in rows.items():
            times = paced(row, peak / 2)
            for quantile, values in seen[name].items():
                values.append(times[int((len(times) - 1) * float(quantile[1:]) / 100)] / 1000)
    print(f"{peak / 2:.0f} requests/s, half of nginx's {peak:.0f}; {CLIENTS} clients, {ROUNDS} rounds of {SECONDS} s, alternating; milliseconds\n")
    print("| | p50 | p99 (min–max) | p99.9 | p99 ÷ nginx |\n|---|---|---|---|---|")
    other = seen["nginx, plain `proxy_pass`"]["p99"]
    for name, values in seen.items():
        ratio = statistics.median(one / two for one, two in zip(values["p99"], other))
        medians = {quantile: statistics.median(times) for quantile, times in values.items()}
        print(f"| {name} | {medians['p50']:.2f} | {machine.spread(values['p99'], 2)} | {medians['p99.9']:.2f} | {ratio:.2f} |")


try:
    main()
finally:
    machine.stop_all()
