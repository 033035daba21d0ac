"""Runs a gateway under the load that its profile is made from; see `run`. Python's own library, OpenSSL and h2load."""

import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import client
import provider
from client import BROWSER, OWN_COOKIES, Client, h2load

# Requests of a user with a session on kept connections. The other counts are in proportion to what a site sees.
REQUESTS = 40_000


started = []


def start(*command, **more):
    process = subprocess.Popen(command, **more)
    started.append(process)
    return process


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app():
    """Starts the app on a socket that is open already. Returns its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        start(sys.executable, f"{sys.path[0]}/app.py", str(listener.fileno()), pass_fds=[listener.fileno()])
        return listener.getsockname()[1]


class Gateway:
    """One process of the instrumented program. It writes its profile when it ends."""

    def __init__(self, program, folder, issuer, app, tls=None, log=True):
        self.port, self.admin = free_port(), free_port()
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        listen = 'tls = {{ certificate = "{1}", key = "{0}" }}\n'.format(*tls) if tls else ""
        apps = "".join(
            f'[[apps]]\nid = "{name}"\naccess = "{access}"\nupstream = "http://127.0.0.1:{port}"\n'
            for name, access, port in (
                ("open", "public", app), ("team", "group:phusers", app), ("other", "group:none", app), ("down", "public", free_port()),
            )
        )
        config = f"{folder}/ludgate-{self.port}.toml"
        with open(config, "w") as file:
            file.write(
                f'[listen]\naddress = "127.0.0.1:{self.port}"\n{listen}[admin]\naddress = "127.0.0.1:{self.admin}"\n'
                f'[site]\nurl = "{self.origin}"\n[identity]\nissuer = "{issuer}"\nclient_id = "{provider.CLIENT}"\n'
                f'client_secret = "{provider.SECRET}"\n[log]\nrequests = {str(log).lower()}\nlevel = "error"\n{apps}'
            )
        self.log = f"{config}.log"
        with open(self.log, "w") as log:
            self.process = start(program, "gateway", "--config", config, stdout=subprocess.DEVNULL, stderr=log)
        self.wait_until_ready()

    def wait_until_ready(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.read("/readyz"):
                    return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"the gateway does not become ready:\n{self.errors()}")

    def read(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=5) as answer:
            return answer.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60):
            raise SystemExit(f"the gateway failed:\n{self.errors()}")

    def errors(self):
        with open(self.log) as log:
            return log.read()


def kept_connections(gateway, session, bearer, share):
    """The bulk of a site's traffic: requests on kept connections, each kind as one client sends it."""
    team, public = f"{gateway.origin}/apps/team/page", f"{gateway.origin}/apps/open/page"
    own = {**BROWSER, "Cookie": f"{OWN_COOKIES}; {session}"}
    h2load(team, REQUESTS // share, {"Cookie": session}, "--h1")
    h2load(team, REQUESTS // 2 // share, own, "--h1")
    h2load(public, REQUESTS // 2 // share, {}, "--h1")
    h2load(public, REQUESTS // 8 // share, own, "--h1")
    h2load(team, REQUESTS // 4 // share, {"Authorization": f"Bearer {bearer}", "Accept": "application/json"}, "--h1")
    h2load(f"{gateway.origin}/apps/team/bytes/20000", REQUESTS // 8 // share, own, "--h1")


def pages(gateway, session, rounds):
    """A page with its parts: documents, scripts that have not changed, forms, cookies of the app, data in chunks."""
    browser = Client(gateway.origin, {**BROWSER, "Cookie": f"{OWN_COOKIES}; {session}"})
    for number in range(rounds):
        browser.send("GET", f"/apps/team/notebooks/{number}?reload={number}", 200)
        browser.send("GET", "/apps/team/status/304", 304, If_None_Match='"33a64df5"')
        browser.send("GET", "/apps/team/cookie/120", 200, Referer=f"{gateway.origin}/apps/team/")
        browser.send("GET", "/apps/team/chunks/4", 200)
        browser.send("HEAD", "/apps/team/bytes/500", 200)
        browser.send("POST", "/apps/team/save", 200, b"name=value&more=" + b"x" * 300, Origin=gateway.origin)
        browser.send("PUT", "/apps/team/save", 200, b"{}", Origin=gateway.origin, Content_Type="application/json")
        browser.send("DELETE", "/apps/team/status/204", 204, Origin=gateway.origin)
        browser.send("GET", "/apps/team/status/404", 404)
    browser.close()


def bodies(gateway, session, rounds):
    """Large answers and uploads, with a length and in chunks."""
    browser = Client(gateway.origin, {"Cookie": session, "Origin": gateway.origin})
    block = b"x" * 65536
    for _ in range(rounds):
        browser.send("GET", "/apps/team/bytes/4000000", 200)
        browser.send("GET", "/apps/team/chunks/500", 200)
        browser.send("POST", "/apps/team/upload", 200, block * 32)
        browser.send("POST", "/apps/team/upload", 200, (block for _ in range(16)), Transfer_Encoding="chunked")
    browser.close()


def refused(gateway, session, rounds):
    """What ends without an app: no session, no access, no app, an app that is down, pages of the gateway."""
    stranger, program = Client(gateway.origin, BROWSER), Client(gateway.origin, {"Accept": "application/json"})
    user = Client(gateway.origin, {**BROWSER, "Cookie": session})
    for _ in range(rounds):
        stranger.send("GET", "/apps/team/", 302)
        stranger.send("GET", "/apps/missing/", 404)
        stranger.send("GET", "/apps/", 200)
        program.send("GET", "/apps/team/", 401)
        program.send("GET", "/apps/team/", 401, Authorization="Bearer not.a.token")
        user.send("GET", "/apps/other/", 403)
        user.send("GET", "/apps/down/", 502)
        user.send("GET", "/oauth2/userinfo", 200)
    for one in (stranger, program, user):
        one.close()


def new_connections(gateway, session, rounds):
    for _ in range(rounds):
        browser = Client(gateway.origin, {**BROWSER, "Cookie": session})
        browser.send("GET", "/apps/team/page", 200, Connection="close")
        browser.close()


def train(gateway, bearer, share):
    for _ in range(3):
        session = client.sign_in(gateway.origin, "/apps/team/")
    kept_connections(gateway, session, bearer, share)
    if gateway.origin.startswith("https"):
        own = {**BROWSER, "Cookie": f"{OWN_COOKIES}; {session}"}
        h2load(f"{gateway.origin}/apps/team/page", REQUESTS // 2, {"Cookie": session}, "-m8")
        h2load(f"{gateway.origin}/apps/team/page", REQUESTS // 4, own, "-m8")
        h2load(f"{gateway.origin}/apps/open/bytes/20000", REQUESTS // 20, own, "-m8")
    pages(gateway, session, 200)
    bodies(gateway, session, 10)
    refused(gateway, session, 60)
    new_connections(gateway, session, 200)
    for _ in range(4):
        client.websocket(gateway.origin, "/apps/team/socket", {"Cookie": session}, 400)
    gateway.read("/metrics")
    gateway.stop()


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        sign_in_service, app = provider.Provider(folder), start_app()
        tls = provider.certificate(folder)
        bearer = sign_in_service.token("at+jwt")
        for share, more in ((1, {"log": False}), (2, {}), (4, {"tls": tls})):
            train(Gateway(program, folder, sign_in_service.issuer, app, **more), bearer, share)


try:
    main()
finally:
    for process in started:
        process.kill()
        process.wait()
