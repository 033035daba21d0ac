"""Measures `ludgate labs` with many labs at once, on a cluster with hollow nodes:

  labs.py PROGRAM LABS POLL_SECONDS

It starts all labs, polls their status 100 times a second, deletes all, and does the same once more. Prints one line per
figure: seconds, calls to the API server per lab, calls during the polling, and resident memory. Needs kubectl,
KUBECONFIG with an admin's credentials, and the audit log of the API server in LUDGATE_AUDIT_LOG, which names each call
of the controller. Uses only Python's standard library.
"""

import collections
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, LABS, POLL_SECONDS = sys.argv[1], *map(int, sys.argv[2:])
AUDIT_LOG = os.environ["LUDGATE_AUDIT_LOG"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
JUPYTER = ROOT / "tests/real/kube/jupyter"
NAMESPACE, ACCOUNT = "bench-labs", "ludgate-labs"
TAG, REPOSITORY = "w_2077_43", "library/lab"
CLIENTS = 32
POLLS_PER_SECOND = 100
ROUNDS = 2
PEOPLE = [f"person-{number}" for number in range(LABS)]
# Pods of hollow nodes run nothing, so a size is only a number for the scheduler.
YAML = """
lab:
  namespacePrefix: bench
  labStartCommand: [lab]
  spawnTimeout: 600
  deleteTimeout: 600
  sizes:
    - size: small
      resources: {{ limits: {{ cpu: 1, memory: 64Mi }}, requests: {{ cpu: 1m, memory: 1Mi }} }}
  volumes:
    - {{ name: home, source: {{ type: hostPath, path: /tmp }} }}
  volumeMounts:
    - {{ containerPath: /home, volumeName: home }}
images:
  source: {{ type: docker, registry: '{registry}', repository: {repository} }}
"""


def kubectl(*arguments, given=None):
    return subprocess.run(["kubectl", *arguments], input=given, check=True, capture_output=True, text=True).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, holds, pause=0.05):
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < 1800, f"waited in vain: {what}"
        time.sleep(pause)
    return time.monotonic() - begun


class UserInfo(http.server.BaseHTTPRequestHandler):
    """Describes the owner of a token. A token is the person's name."""

    def do_GET(self):
        name = self.headers["Authorization"].removeprefix("Bearer ")
        number = 10_000 + int(name.rpartition("-")[2])
        quota = {"notebook": {"cpu": 4, "memory": 8}}
        text = json.dumps({"preferred_username": name, "uid": number, "gid": number, "quota": quota}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def serve_user_info():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), UserInfo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def start_registry(folder):
    """A registry with an image of nothing, which hollow nodes do not pull."""
    root, layout = folder / "root", folder / "image"
    root.mkdir()
    make = [sys.executable, "-B", JUPYTER / "layout.py", layout, root, "{}", f"{TAG},recommended"]
    subprocess.run(make, check=True)
    command = [sys.executable, "-B", JUPYTER / "registry.py", layout]
    registry = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return registry, registry.stdout.readline().strip()


def prepare(folder):
    """Grants the shipped rights, and writes a kubeconfig with a token that has them and no others."""
    kubectl("create", "namespace", NAMESPACE)
    rights = (ROOT / "config/rbac/labs.yaml").read_text(encoding="utf-8")
    kubectl("-n", NAMESPACE, "apply", "-f", "-", given=rights.replace("namespace: hub", f"namespace: {NAMESPACE}"))
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    token = json.loads(kubectl("create", "--raw", path, "-f", "-", given=json.dumps(request)))["status"]["token"]
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    (folder / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")


class Controller:
    """The process, and a connection to it for each thread."""

    def __init__(self, folder, registry):
        self.port, self._local = free_port(), threading.local()
        (folder / "labs.yaml").write_text(YAML.format(registry=registry, repository=REPOSITORY), encoding="utf-8")
        (folder / "ludgate.toml").write_text(
            f'[admin]\naddress = "127.0.0.1:{free_port()}"\n[site]\nurl = "https://hub.example.com"\n'
            f'[kubernetes]\nnamespace = "{NAMESPACE}"\nkubeconfig = "{folder / "kubeconfig"}"\n'
            f'[labs]\naddress = "127.0.0.1:{self.port}"\nconfig = "labs.yaml"\ndialect = "nublado"\n'
            f'trusted_peers = ["127.0.0.1/32"]\nuser_info = "{serve_user_info()}"\nscopes = {{ hub = ["proxy"] }}\n',
            encoding="utf-8")
        log = open(folder / "labs.log", "wb")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([PROGRAM, "labs", "--config", folder / "ludgate.toml"], stderr=log)

    def call(self, method, path, person=None, body=None):
        """Status and body of an answer. A named person has sent the request through the proxy."""
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        connection = self._local.connection
        headers = {"Content-Type": "application/json"}
        if person:
            headers |= {"X-Auth-Request-User": person, "X-Auth-Request-Token": person}
        text = None if body is None else json.dumps(body)
        # The server ends idle connections, so a read is tried again on a new one.
        for _ in range(2 if method == "GET" else 1):
            try:
                connection.request(method, f"/nublado/spawner/v1/{path}", text, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
        return 0, b""

    def create(self, person):
        body = {
            "options": {"image_tag": TAG, "size": "small"},
            "env": {"JUPYTERHUB_SERVICE_PREFIX": f"/nb/user/{person}/", "JUPYTERHUB_API_TOKEN": "t" * 32},
        }
        status, text = self.call("POST", f"labs/{person}/create", person, body)
        assert status == 201, (person, status, text)

    def delete(self, person):
        status, text = self.call("DELETE", f"labs/{person}")
        assert status == 204, (person, status, text)

    def running(self):
        return len(json.loads(self.call("GET", "labs")[1]))

    def resident(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def calls_since(offset):
    """The controller's calls after a position of the audit log, by verb and resource. A watch counts when it begins."""
    calls = collections.Counter()
    account = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    with open(AUDIT_LOG, encoding="utf-8") as log:
        log.seek(offset)
        for line in log:
            if not line.endswith("\n"):
                # It is being written.
                break
            event = json.loads(line)
            counts = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
            if event["user"]["username"] == account and event["stage"] == counts:
                calls[f'{event["verb"]} {event.get("objectRef", {}).get("resource", "?")}'] += 1
    return calls


def described(calls, labs):
    """Calls per lab, without those for the lease, which come with time."""
    own = collections.Counter({call: count for call, count in calls.items() if not call.endswith(" leases")})
    kinds = ", ".join(f"{call} {count / labs:.2f}" for call, count in own.most_common())
    return f"{own.total() / labs:.1f} calls per lab ({kinds})"


def measured(clients, what, work, is_done, controller):
    offset, begun = os.path.getsize(AUDIT_LOG), time.monotonic()
    list(clients.map(work, PEOPLE))
    until(what, is_done)
    seconds = time.monotonic() - begun
    print(f"{LABS} labs {what} in {seconds:.1f} s, {described(calls_since(offset), LABS)}; "
          f"{controller.resident():.1f} MiB resident", flush=True)


def poll(clients, controller):
    """Reads the status of labs at a steady rate. Each read is due at its own time, so a slow one delays no other."""
    offset, begun = os.path.getsize(AUDIT_LOG), time.monotonic()

    def read(number):
        time.sleep(max(0.0, begun + number / POLLS_PER_SECOND - time.monotonic()))
        person = PEOPLE[number % LABS]
        asked = time.monotonic()
        status, text = controller.call("GET", f"labs/{person}")
        assert status == 200 and json.loads(text)["status"] == "running", (person, status, text)
        return time.monotonic() - asked

    durations = sorted(clients.map(read, range(POLL_SECONDS * POLLS_PER_SECOND)))
    seconds, calls = time.monotonic() - begun, calls_since(offset)
    middle, slow = durations[len(durations) // 2], durations[len(durations) * 99 // 100]
    print(f"{len(durations)} reads of a status in {seconds:.1f} s, {middle * 1000:.1f} ms in the median, "
          f"{slow * 1000:.1f} ms for 99 %; calls meanwhile: {dict(calls)}", flush=True)
    # The lease is renewed, and watches begin anew, with or without reads.
    caused = [call for call in calls if not call.endswith(" leases") and not call.startswith("watch ")]
    assert not caused, f"calls while statuses were read: {caused}"


def measure(controller):
    def is_ready():
        status, text = controller.call("GET", f"lab-form/{PEOPLE[0]}", PEOPLE[0])
        return status == 200 and f"{REPOSITORY}:".encode() in text

    def leads():
        # A lab that does not exist: only a process that leads looks for it.
        return controller.call("DELETE", "labs/nobody")[0] == 404

    until("the images are known", is_ready)
    until("the process leads", leads)
    print(f"resident memory without labs: {controller.resident():.1f} MiB", flush=True)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        for _ in range(ROUNDS):
            measured(clients, "spawned", controller.create, lambda: controller.running() == LABS, controller)
            poll(clients, controller)
            measured(clients, "deleted", controller.delete, lambda: controller.running() == 0, controller)


def main(folder):
    # The real node would run the pods, and the figures would be those of containers.
    kubectl("cordon", "node-1")
    prepare(folder)
    registry, address = start_registry(folder)
    controller = Controller(folder, address)
    try:
        measure(controller)
    except BaseException:
        print((folder / "labs.log").read_text(encoding="utf-8")[-20_000:], file=sys.stderr)
        raise
    finally:
        controller.process.send_signal(signal.SIGTERM)
        controller.process.wait()
        registry.kill()
        registry.wait()


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
