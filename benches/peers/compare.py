"""CPU per request of the gate and of its peers; see `run`. Python's own library only."""

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

BUILT, MODE = sys.argv[1], (sys.argv[2:] or ["--full"])[0]
ROUNDS, SECONDS = {"--full": (7, 5), "--quick": (5, 4), "--smoke": (1, 2)}[MODE]
CONNECTIONS, SECRET = 16, "a-secret-for-benches-only"
TICK = os.sysconf("SC_CLK_TCK")
PROXY_CORE, LOAD_CORE = "0", "1"

folder = tempfile.TemporaryDirectory()
started = []


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(core, *command, **more):
    process = subprocess.Popen(["taskset", "-c", core, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    started.append(process)
    return process


def until_open(number):
    until = time.monotonic() + 15
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on {number}")


def write(name, text):
    path = os.path.join(folder.name, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def nginx(name, core, server, more=""):
    at = folder.name
    temporary = "".join(f"{kind}_temp_path {at}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = write(f"{name}.conf", f"""daemon off; worker_processes 1; pid {at}/{name}.pid; error_log {at}/{name}.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; {temporary} {more} server {{ {server} }} }}""")
    return start(core, "nginx", "-c", config)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid] + [one for child in file.read().split() for one in children(int(child))]


def cpu(process):
    """Seconds of user and system time of the process and what it started."""
    total = 0
    for pid in children(process.pid):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def ask(host, method, path, headers, body=None):
    connection = http.client.HTTPConnection(*host, timeout=10)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer, answer.read()


class Person:
    """A browser that follows the sign-in: a cookie jar for each origin."""

    def __init__(self):
        self.jars = {}

    def get(self, url):
        parts = urllib.parse.urlsplit(url)
        jar = self.jars.setdefault(parts.netloc, {})
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        path = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
        answer, body = ask((parts.hostname, parts.port), "GET", path, {"Accept": "text/html", "Cookie": cookies})
        for line in answer.headers.get_all("set-cookie") or []:
            name, value = line.split(";")[0].split("=", 1)
            jar[name] = value
        return answer, body

    def follow(self, url):
        for _ in range(15):
            answer, _ = self.get(url)
            location = answer.headers.get("location")
            if not location:
                return url, answer
            url = urllib.parse.urljoin(url, location)
            if "/interaction/" in url and "login=" not in url:
                url += "?login=alice"
        raise SystemExit("the sign-in goes in circles")


def token(issuer, redirect):
    """An access token by a code flow of its own."""
    verifier = "a-verifier-of-at-least-forty-three-characters-0123456789"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = urllib.parse.urlencode({
        "client_id": "ludgate", "redirect_uri": redirect, "response_type": "code", "scope": "openid profile email groups",
        "code_challenge": challenge, "code_challenge_method": "S256", "state": "x", "nonce": "y",
    })
    person, url = Person(), f"{issuer}/auth?{query}"
    for _ in range(10):
        answer, _ = person.get(url)
        url = urllib.parse.urljoin(url, answer.headers["location"])
        if url.startswith(redirect):
            break
        if "/interaction/" in url and "login=" not in url:
            url += "?login=alice"
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["code"][0]
    form = urllib.parse.urlencode({"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier})
    basic = base64.b64encode(f"ludgate:{SECRET}".encode()).decode()
    parts = urllib.parse.urlsplit(issuer)
    _, body = ask((parts.hostname, parts.port), "POST", "/token", {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}, form)
    return json.loads(body)["access_token"]


def load(number, path, headers, seconds):
    """Requests that were answered with 2xx; wrk says how many were not."""
    command = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    said = subprocess.check_output([*command, f"http://127.0.0.1:{number}{path}"], text=True)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said) or re.search(r"Socket errors: (.*)", said)
    if bad:
        raise SystemExit(f"not every request was answered: {bad.group(0)}\n{said}")
    return int(re.search(r"(\d+) requests in", said).group(1))


def main():
    for needed in ("nginx", "wrk", "taskset", "node"):
        if not shutil.which(needed):
            raise SystemExit(f"{needed} is needed and not there")
    app = port()
    nginx("app", LOAD_CORE, f'listen 127.0.0.1:{app}; location / {{ return 200 "ok, as an app says it\\n"; }}')
    until_open(app)
    candidates = {}
    number = port()
    candidates["bare relay (copies bytes)"] = (start(PROXY_CORE, f"{BUILT}/examples/relay", f"127.0.0.1:{number}", f"127.0.0.1:{app}"), number, "/x", {})
    number = port()
    proxy = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; proxy_pass http://app;"
    upstream = f"upstream app {{ server 127.0.0.1:{app}; keepalive 64; keepalive_requests 100000000; }}"
    candidates["nginx, plain proxy_pass"] = (nginx("proxy", PROXY_CORE, f"listen 127.0.0.1:{number}; location / {{ {proxy} }}", upstream), number, "/x", {})
    if shutil.which("haproxy"):
        number = port()
        config = write("haproxy.cfg", f"""global
  nbthread 1
defaults
  mode http
  timeout connect 3s
  timeout client 60s
  timeout server 60s
  http-reuse always
listen all
  bind 127.0.0.1:{number}
  server app 127.0.0.1:{app}
""")
        candidates["haproxy, http mode"] = (start(PROXY_CORE, "haproxy", "-f", config), number, "/x", {})
    number = port()
    environment = {**os.environ, "CLIENT_SECRET": SECRET, "REDIRECT_URI": f"http://127.0.0.1:{number}/oauth2/callback", "ACCESS_TOKEN_TTL": "86400"}
    provider = subprocess.Popen(["taskset", "-c", LOAD_CORE, "node", "op.mjs"], cwd="tests/real/oidc-provider", env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    started.append(provider)
    issuer = json.loads(provider.stdout.readline())["issuer"]
    config = write("ludgate.toml", f"""[listen]
address = "127.0.0.1:{number}"
[admin]
address = "127.0.0.1:0"
[site]
url = "http://127.0.0.1:{number}"
[identity]
issuer = "{issuer}"
client_id = "ludgate"
client_secret = "{SECRET}"
[log]
requests = false
level = "error"
[[apps]]
id = "open"
access = "public"
upstream = "http://127.0.0.1:{app}"
[[apps]]
id = "team"
access = "group:phusers"
upstream = "http://127.0.0.1:{app}"
""")
    gate = start(PROXY_CORE, f"{BUILT}/ludgate", "gateway", "--config", config)
    until_open(number)
    time.sleep(1)
    person = Person()
    url, answer = person.follow(f"http://127.0.0.1:{number}/apps/team/x")
    assert answer.status == 200, (url, answer.status)
    jar = person.jars[f"127.0.0.1:{number}"]
    session = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
    bearer = {"Authorization": f"Bearer {token(issuer, environment['REDIRECT_URI'])}"}
    candidates["**Ludgate**, public app"] = (gate, number, "/apps/open/x", {})
    candidates["**Ludgate**, group app, session"] = (gate, number, "/apps/team/x", session)
    candidates["**Ludgate**, group app, bearer token"] = (gate, number, "/apps/team/x", bearer)
    for name, (_, at, path, headers) in candidates.items():
        until_open(at)
        load(at, path, headers, 1)
    costs = {name: [] for name in candidates}
    rates = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, (process, at, path, headers) in candidates.items():
            before = cpu(process)
            done = load(at, path, headers, SECONDS)
            costs[name].append((cpu(process) - before) / done * 1e6)
            rates[name].append(done / SECONDS)
    middle = {name: statistics.median(values) for name, values in costs.items()}
    relay, plain = middle["bare relay (copies bytes)"], middle["nginx, plain proxy_pass"]
    print(f"{ROUNDS} rounds of {SECONDS} s each, taking turns; {CONNECTIONS} connections; proxy on one core, app and load on the other; no request log\n")
    print("| | µs of CPU a request (min–max) | ÷ relay | ÷ nginx | requests/s |\n|---|---|---|---|---|")
    for name, values in costs.items():
        cost = middle[name]
        print(f"| {name} | {cost:.1f} ({min(values):.1f}–{max(values):.1f}) | {cost / relay:.2f} | {cost / plain:.2f} | {statistics.median(rates[name]):.0f} |")
    versions = [subprocess.run(command, capture_output=True, text=True) for command in (["nginx", "-v"], ["haproxy", "-v"]) if shutil.which(command[0])]
    print("\n" + " · ".join((one.stdout + one.stderr).splitlines()[0] for one in versions))


try:
    main()
finally:
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        process.wait(20)
