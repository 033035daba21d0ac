"""Helm as a library. As a program it has the part of Helm's command line that documents use (bin/helm), and refuses
other commands and flags:

  helm.py install RELEASE CHART [--values FILE]…
  helm.py upgrade RELEASE CHART [--values FILE]… [--wait] [--timeout DURATION]
  helm.py uninstall RELEASE
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from chart_values import merged


class Helm:
    """The functions of Helm's library that the tests need."""

    class Refused(Exception):
        pass

    def __init__(self, folder, namespace):
        # Helm must not read or write the user's own configuration.
        for part in ("CACHE", "CONFIG", "DATA"):
            os.environ[f"HELM_{part}_HOME"] = str(folder / part.lower())
        found = list(pathlib.Path(sys.prefix).glob("lib/*/site-packages/helm_sdkpy/_lib/*/libhelm_sdkpy.so"))
        self.library = ctypes.CDLL(str(found[0]))
        self.library.helm_sdkpy_last_error.restype = ctypes.c_char_p
        self.library.helm_sdkpy_version_string.restype = ctypes.c_char_p
        self.library.helm_sdkpy_free.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_ulonglong()
        kubeconfig = os.environ["KUBECONFIG"].encode()
        self._check(self.library.helm_sdkpy_config_create(
            namespace.encode(), kubeconfig, None, b"{}", ctypes.byref(self.handle)))

    def version(self):
        return self.library.helm_sdkpy_version_string().decode()

    def _check(self, code):
        if code != 0:
            raise Helm.Refused(self.library.helm_sdkpy_last_error().decode())

    def _call(self, function, *arguments):
        result = ctypes.c_void_p()
        self._check(function(self.handle, *arguments, ctypes.byref(result)))
        text = ctypes.string_at(result).decode()
        self.library.helm_sdkpy_free(result)
        return json.loads(text)

    def install(self, release, chart, values):
        options = json.dumps({"wait": False, "timeout_seconds": 60, "server_side_apply": "false"})
        return self._call(self.library.helm_sdkpy_install, release.encode(), str(chart).encode(),
                          json.dumps(values).encode(), b"", options.encode())

    def upgrade(self, release, chart, values, wait, seconds):
        """Changes a release that there is. `seconds` is the longest wait."""
        options = json.dumps({"wait": wait, "timeout_seconds": seconds, "server_side_apply": "false"})
        return self._call(self.library.helm_sdkpy_upgrade, release.encode(), str(chart).encode(),
                          json.dumps(values).encode(), b"", options.encode())

    def uninstall(self, release):
        self._call(self.library.helm_sdkpy_uninstall, release.encode(), 0, 60)

    def lint(self, chart):
        return self._call(self.library.helm_sdkpy_lint, str(chart).encode())


def seconds(text):
    """The seconds of a duration such as `5m`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in ("s", "m"):
        raise argparse.ArgumentTypeError(f"{text}: not a duration such as 90s or 5m")
    return int(number) * {"s": 1, "m": 60}[unit]


def command_line():
    parser = argparse.ArgumentParser(prog="helm", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", allow_abbrev=False)
    upgrade = commands.add_parser("upgrade", allow_abbrev=False)
    for command in (install, upgrade):
        command.add_argument("release")
        command.add_argument("chart", type=pathlib.Path)
        command.add_argument("--values", action="append", default=[], type=pathlib.Path)
    upgrade.add_argument("--wait", action="store_true")
    upgrade.add_argument("--timeout", default="5m", type=seconds)
    uninstall = commands.add_parser("uninstall", allow_abbrev=False)
    uninstall.add_argument("release")
    return parser.parse_args()


def values_of(paths):
    """The values of several files. As in Helm, a later file wins, and tables are merged."""
    values = {}
    for path in paths:
        values = merged(values, yaml.safe_load(path.read_text()) or {})
    return values


def current_namespace():
    """The namespace of the kubeconfig's current context."""
    shown = subprocess.run(["kubectl", "config", "view", "--minify", "--output", "jsonpath={.contexts[0].context.namespace}"],
                           check=True, capture_output=True, text=True)
    return shown.stdout.strip() or "default"


def main():
    arguments = command_line()
    with tempfile.TemporaryDirectory() as folder:
        helm = Helm(pathlib.Path(folder), current_namespace())
        match arguments.command:
            case "install":
                helm.install(arguments.release, arguments.chart, values_of(arguments.values))
                print(f"{arguments.release} is installed")
            case "upgrade":
                helm.upgrade(arguments.release, arguments.chart, values_of(arguments.values), arguments.wait,
                             arguments.timeout)
                print(f"{arguments.release} is upgraded")
            case "uninstall":
                helm.uninstall(arguments.release)
                print(f"{arguments.release} is uninstalled")


if __name__ == "__main__":
    try:
        main()
    except Helm.Refused as refused:
        sys.exit(f"Error: {refused}")
