"""Counts the instructions of a gateway per request, with callgrind.

CALLGRIND names a folder in which its files stay, for callgrind_annotate. CALLGRIND_OPTIONS are more options for it, for
example --cache-sim=yes.
"""

import os
import subprocess

import machine


def wrapper(name):
    """The command that runs a program under callgrind. Counting starts later."""
    more = os.environ.get("CALLGRIND_OPTIONS", "").split()
    return ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder()}/{name}.%p", *more)


def folder():
    return os.environ.get("CALLGRIND", machine.folder.name)


def per_request(name, process, load):
    """The instructions of a process that `wrapper` runs, while `load` sends requests and returns their number."""
    before = set(os.listdir(folder()))
    control(process, "--instr=on")
    done = load()
    control(process, "--dump")
    control(process, "--instr=off")
    total = 0
    for file in set(os.listdir(folder())) - before:
        if file.startswith(name):
            with open(os.path.join(folder(), file)) as lines:
                total += sum(int(line.split()[1]) for line in lines if line.startswith("totals:"))
    return total / done


def control(process, option):
    subprocess.run(["callgrind_control", option, str(process.pid)], check=True, capture_output=True)
