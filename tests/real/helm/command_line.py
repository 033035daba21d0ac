"""Helm's command line for tests, on Helm's library: the commands and flags that Ludgate uses, and `get metadata`.

Other flags end it with exit code 2, so that no test passes because a flag was ignored. The library cannot do what the
flags in UNSUPPORTED ask for; LUDGATE_TEST_HELM_IGNORE names those that a test has no need of.

On SIGTERM it ends at once, and leaves the release as it is. The real program marks the release as failed first.

The library rolls the objects of a release back, and then fails, since it gives Helm no strategy for waiting. The states
of the revisions, which Helm sets after that, are set here. A rollback with hooks fails.
"""

import argparse
import base64
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import threading

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kube"))

from helm import Helm  # noqa: E402

# Of the library (libhelm_sdkpy.so 0.1.32).
VERSION = "v4.3.0"
UNSUPPORTED = ("--enable-dns", "--labels", "--description", "--cascade")
# Exit code of a process that SIGTERM ended.
TERMINATED = 128 + signal.SIGTERM


class Refused(Exception):
    """The command failed; the text is what Helm prints."""


class Library(Helm):
    """The functions of Helm's library, with options."""

    class NotFound(Helm.Refused):
        """There is no such release."""

    def _check(self, code):
        if code == -2:
            raise Library.NotFound(self.library.helm_sdkpy_last_error().decode())
        super()._check(code)

    def upgrade_or_install(self, release, chart, values, options):
        return self._call(self.library.helm_sdkpy_upgrade, release.encode(), str(chart).encode(),
                          json.dumps(values).encode(), b"", json.dumps(options).encode())

    def rollback(self, release, revision):
        """Rolls back. Returns whether Helm did all of it."""
        try:
            self._call(self.library.helm_sdkpy_rollback, release.encode(), revision)
        except Helm.Refused as refused:
            if "wait strategy not set" not in str(refused):
                raise
            return False
        return True

    def remove(self, release, wait, seconds):
        return self._call(self.library.helm_sdkpy_uninstall, release.encode(), int(wait), seconds)

    def history(self, release):
        """The revisions, oldest first."""
        found = self._call(self.library.helm_sdkpy_history, release.encode()) or []
        return sorted(found, key=lambda revision: revision["version"])

    def list(self):
        return self._call(self.library.helm_sdkpy_list, 1) or []


def seconds(text):
    number = re.fullmatch(r"(\d+)s", text)
    if not number or int(number[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text}: this test tool needs whole seconds, at least one")
    return int(number[1])


def namespaced(command, waits=False):
    command.add_argument("--namespace", "-n", required=True)
    if waits:
        command.add_argument("--timeout", type=seconds, default=300)


def command_line():
    parser = argparse.ArgumentParser(prog="helm", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name, **options):
        return commands.add_parser(name, allow_abbrev=False, **options)

    add("version").add_argument("--template", choices=["{{.Version}}"], required=True)

    upgrade = add("upgrade")
    upgrade.add_argument("release")
    upgrade.add_argument("chart", type=pathlib.Path)
    namespaced(upgrade, waits=True)
    upgrade.add_argument("--install", action="store_true", required=True)
    upgrade.add_argument("--values", type=pathlib.Path, required=True)
    upgrade.add_argument("--reset-values", action="store_true", required=True)
    upgrade.add_argument("--history-max", type=int, required=True)
    upgrade.add_argument("--output", choices=["json"])
    # Only with `=`: this version of Helm takes a following word for an argument.
    upgrade.add_argument("--wait", nargs="?", const="watcher", choices=["watcher"])
    upgrade.add_argument("--wait-for-jobs", action="store_true")
    upgrade.add_argument("--rollback-on-failure", action="store_true")
    upgrade.add_argument("--take-ownership", action="store_true")
    upgrade.add_argument("--server-side", choices=["auto", "true", "false"], default="auto")
    upgrade.add_argument("--enable-dns", action="store_true")
    upgrade.add_argument("--labels")
    upgrade.add_argument("--description")

    rollback = add("rollback")
    rollback.add_argument("release")
    rollback.add_argument("revision", type=int)
    namespaced(rollback, waits=True)

    uninstall = add("uninstall")
    uninstall.add_argument("release")
    namespaced(uninstall, waits=True)
    uninstall.add_argument("--ignore-not-found", action="store_true")
    uninstall.add_argument("--wait", nargs="?", const="watcher", choices=["watcher"])
    uninstall.add_argument("--cascade", choices=["foreground"])

    history = add("history")
    history.add_argument("release")
    namespaced(history)
    history.add_argument("--output", "-o", choices=["json"], required=True)
    history.add_argument("--max", type=int, default=256)

    status = add("status")
    status.add_argument("release")
    namespaced(status)
    status.add_argument("--output", "-o", choices=["json"], required=True)
    status.add_argument("--revision", type=int)

    listed = add("list")
    namespaced(listed)
    listed.add_argument("--output", "-o", choices=["json"], required=True)
    listed.add_argument("--filter", type=re.compile, default=re.compile(""))

    get = add("get")
    get.add_argument("what", choices=["metadata"])
    get.add_argument("release")
    namespaced(get)
    get.add_argument("--output", "-o", choices=["json"], required=True)

    arguments, unknown = parser.parse_known_args()
    ignored = os.environ.get("LUDGATE_TEST_HELM_IGNORE", "").split()
    for flag in UNSUPPORTED:
        if getattr(arguments, flag.strip("-").replace("-", "_"), None) and flag not in ignored:
            unknown.append(flag)
    if unknown:
        print(f"not in this test tool: {' '.join(unknown)}", file=sys.stderr)
        sys.exit(2)
    return arguments


def chart_files(chart):
    """The text of Chart.yaml, and the names in charts/."""
    if chart.is_dir():
        below = chart / "charts"
        return (chart / "Chart.yaml").read_text(), [path.name for path in below.iterdir()] if below.is_dir() else []
    with tarfile.open(chart) as archive:
        # The first folder has any name.
        paths = {member.name.partition("/")[2]: member for member in archive.getmembers()}
        text = archive.extractfile(paths["Chart.yaml"]).read().decode()
    return text, [path.split("/")[1] for path in paths if path.startswith("charts/")]


def check_dependencies(chart):
    """As the command line does before it calls the library: all dependencies are in charts/."""
    text, found = chart_files(chart)
    wanted = [one["name"] for one in yaml.safe_load(text).get("dependencies") or []]
    missing = [name for name in wanted
               if not any(one == name or re.fullmatch(re.escape(name) + r"-\d.*\.tgz", one) for one in found)]
    if missing:
        raise Refused("an error occurred while checking for chart dependencies. You may need to run `helm dependency "
                      "build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: "
                      + ", ".join(missing))


def upgrade(helm, arguments):
    check_dependencies(arguments.chart)
    values = yaml.safe_load(arguments.values.read_text()) or {}
    options = {
        "install": True,
        "reset_values": True,
        "wait": bool(arguments.wait) or arguments.rollback_on_failure,
        "wait_for_jobs": arguments.wait_for_jobs,
        "timeout_seconds": arguments.timeout,
        "max_history": arguments.history_max,
        "rollback_on_failure": arguments.rollback_on_failure,
        "take_ownership": arguments.take_ownership,
        "server_side_apply": arguments.server_side,
    }
    try:
        release = helm.upgrade_or_install(arguments.release, arguments.chart, values, options)
    except Helm.Refused as refused:
        # The command line says so of upgrades only.
        action, mark, rest = str(refused).partition(" failed: ")
        if mark and action == "install":
            raise Refused(rest) from refused
        raise Refused("UPGRADE FAILED: " + (rest if mark and action == "upgrade" else str(refused))) from refused
    if arguments.output:
        print(json.dumps(release))
    else:
        print(f"NAME: {release['name']}\nSTATUS: {release['info']['status']}\nREVISION: {release['version']}")


def uninstall(helm, arguments):
    try:
        helm.remove(arguments.release, bool(arguments.wait), arguments.timeout)
    except Helm.Refused as refused:
        is_gone = isinstance(refused, Library.NotFound) or "release: not found" in str(refused)
        if not (is_gone and arguments.ignore_not_found):
            raise
    print(f'release "{arguments.release}" uninstalled')


def metadata_of(release):
    return (release.get("chart") or {}).get("metadata") or {}


def chart_name(release):
    metadata = metadata_of(release)
    return f"{metadata.get('name', '')}-{metadata.get('version', '')}"


def history(helm, arguments):
    entries = [{
        "revision": release["version"],
        "updated": release["info"].get("last_deployed", ""),
        "status": release["info"]["status"],
        "chart": chart_name(release),
        "app_version": metadata_of(release).get("appVersion", ""),
        "description": release["info"].get("description", ""),
    } for release in helm.history(arguments.release)]
    print(json.dumps(entries[-arguments.max:]))


def revision_of(helm, release, revision=None):
    found = [one for one in helm.history(release) if revision in (None, one["version"])]
    if not found:
        raise Refused("release: not found")
    return found[-1]


def status(helm, arguments):
    release = revision_of(helm, arguments.release, arguments.revision)
    release.pop("chart", None)
    print(json.dumps(release))


def listed(helm, arguments):
    print(json.dumps([{
        "name": release["name"],
        "namespace": release["namespace"],
        "revision": str(release["version"]),
        "updated": release["info"].get("last_deployed", ""),
        "status": release["info"]["status"],
        "chart": chart_name(release),
        "app_version": metadata_of(release).get("appVersion", ""),
    } for release in helm.list() if arguments.filter.search(release["name"])]))


def get(helm, arguments):
    release = revision_of(helm, arguments.release)
    metadata = metadata_of(release)
    print(json.dumps({
        "name": release["name"],
        "chart": metadata.get("name", ""),
        "version": metadata.get("version", ""),
        "appVersion": metadata.get("appVersion", ""),
        "namespace": release["namespace"],
        "revision": release["version"],
        "status": release["info"]["status"],
        "deployedAt": release["info"].get("last_deployed", ""),
    }))


def has_rollback_hook(release):
    events = [event for hook in release.get("hooks") or [] for event in hook.get("events") or []]
    return any(event in ("pre-rollback", "post-rollback") for event in events)


def set_state(namespace, release, revision, state):
    """Sets the state of a revision where Helm stores it: in a label of its Secret, and in the body of the Secret."""
    kubectl = ["kubectl", "--namespace", namespace]
    name = f"sh.helm.release.v1.{release}.v{revision}"
    found = subprocess.run([*kubectl, "get", "secret", name, "--output", "json"], check=True, capture_output=True)
    secret = json.loads(found.stdout)
    body = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    body = json.loads(gzip.decompress(body))
    body["info"]["status"] = state
    packed = base64.b64encode(gzip.compress(json.dumps(body).encode()))
    secret["data"]["release"] = base64.b64encode(packed).decode()
    secret["metadata"]["labels"]["status"] = state
    subprocess.run([*kubectl, "replace", "--filename", "-"], input=json.dumps(secret).encode(), check=True,
                   capture_output=True)


def rollback(helm, arguments):
    if not helm.rollback(arguments.release, arguments.revision):
        revisions = helm.history(arguments.release)
        if has_rollback_hook(revisions[-1]):
            raise Refused("wait strategy not set")
        for one in revisions[:-1]:
            if one["info"]["status"] == "deployed":
                set_state(arguments.namespace, arguments.release, one["version"], "superseded")
        set_state(arguments.namespace, arguments.release, revisions[-1]["version"], "deployed")
    print("Rollback was a success! Happy Helming!")


COMMANDS = {"upgrade": upgrade, "rollback": rollback, "uninstall": uninstall, "history": history, "status": status,
            "list": listed, "get": get}


def main():
    arguments = command_line()
    if arguments.command == "version":
        print(VERSION)
        return 0
    # The folder of Helm's own files, by which the environment names them too.
    helm = Library(pathlib.Path(os.environ["HELM_CACHE_HOME"]).parent, arguments.namespace)
    codes = []

    def work():
        try:
            COMMANDS[arguments.command](helm, arguments)
            codes.append(0)
        except (Refused, Helm.Refused, OSError, KeyError, tarfile.TarError, yaml.YAMLError) as error:
            print(f"Error: {error}", file=sys.stderr)
            codes.append(1)
        except subprocess.CalledProcessError as error:
            print(f"Error: {error}: {error.stderr.decode(errors='replace')}", file=sys.stderr)
            codes.append(1)

    # In the main thread a call into the library would delay the signal. The library sets handlers of its own when it
    # is loaded, so this comes after it.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    # The library's rollback has no timeout.
    left = arguments.timeout * 5 if arguments.command == "rollback" else None
    while worker.is_alive():
        worker.join(0.2)
        if left is not None:
            left -= 1
            if left < 0:
                print("Error: timed out waiting for the condition", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)
    return codes[0] if codes else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the library may still run.
    os._exit(code)
