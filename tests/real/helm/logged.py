"""Notes how Helm is called, and becomes Helm: the program that LUDGATE_TEST_HELM_PROGRAM names.

LUDGATE_TEST_HELM_LOG is a file that gets a line of JSON for each call: process id, arguments, environment, open files,
and the modes of the files in the current folder. It is the same process before and after.
"""

import json
import os
import pathlib
import sys

# The shell that starts this script may set them.
OF_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


def open_files():
    folder = "/proc/self/fd"
    found = []
    for number in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{number}"))
        except FileNotFoundError:
            # That of the listing itself.
            pass
    return sorted(found)


def main():
    environment = {name: value for name, value in os.environ.items()
                   if name not in OF_SHELL and not name.startswith("LUDGATE_TEST_") and name != "LC_CTYPE"}
    here = pathlib.Path.cwd()
    modes = {str(path.relative_to(here)): oct(path.stat().st_mode & 0o777) for path in here.rglob("*")}
    modes["."] = oct(here.stat().st_mode & 0o777)
    line = {"process": os.getpid(), "arguments": sys.argv[1:], "environment": environment, "open": open_files(),
            "modes": modes}
    with open(os.environ["LUDGATE_TEST_HELM_LOG"], "a") as log:
        log.write(json.dumps(line) + "\n")
    program = os.environ["LUDGATE_TEST_HELM_PROGRAM"]
    os.execv(program, [program, *sys.argv[1:]])


main()
