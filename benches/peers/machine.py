"""Processes, ports, cores and load of a measurement. Uses only Python's standard library."""

import os
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
PROXY_CORE, LOAD_CORE = "0", "1"
CONNECTIONS = 16

folder = tempfile.TemporaryDirectory()
started = []


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(core, *command, **more):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(["taskset", "-c", core, *command], **{**quiet, **more})
    started.append(process)
    return process


def stop_all():
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def until_open(number):
    until = time.monotonic() + 15
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"no server listens on port {number}")


def write(name, text):
    path = os.path.join(folder.name, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid] + [one for child in file.read().split() for one in children(int(child))]


def cpu(process):
    """User and system time in seconds, of the process and its descendants."""
    user = system = 0
    for pid in children(process.pid):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user / TICK, system / TICK


def resident(process):
    """Resident memory in KiB, of the process and its descendants."""
    total = 0
    for pid in children(process.pid):
        with open(f"/proc/{pid}/status") as file:
            total += int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
    return total


def load(number, path, headers, seconds, connections=CONNECTIONS, host="127.0.0.1"):
    """Runs wrk against the server and returns the number of requests. Exits if a request failed."""
    command = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    output = subprocess.check_output([*command, f"http://{host}:{number}{path}"], text=True)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", output) or re.search(r"Socket errors: (.*)", output)
    if bad:
        raise SystemExit(f"failed requests: {bad.group(0)}\n{output}")
    return int(re.search(r"(\d+) requests in", output).group(1))


def spread(values, digits=1):
    """The median, with minimum and maximum."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
