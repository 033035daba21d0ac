"""A real JupyterHub with its real proxy, labs of one line, and a person's browser without a window."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path

import httpx
from fake_controller import HUB_TOKEN
from ports import free_port
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

HERE = Path(__file__).parent
PATIENCE = 60


class Program:
    """A program whose output can be waited for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self._changed = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task | None = None

    async def run(self, *command: str, env: dict, cwd: Path) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **env}, cwd=cwd, stdout=pipe, stderr=asyncio.subprocess.STDOUT, limit=2**20
        )
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for line in self._process.stdout:
            await self._add(line.decode("utf-8", "replace").rstrip())
        await self._add("(has ended)")

    async def _add(self, line: str) -> None:
        async with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    async def has_said(self, text: str, times: int = 1) -> None:
        """Waits for lines with a text."""

        def is_said() -> bool:
            return sum(text in line for line in self.lines) >= times

        async def wait() -> None:
            async with self._changed:
                await self._changed.wait_for(lambda: is_said() or self.lines[-1:] == ["(has ended)"])

        try:
            await asyncio.wait_for(wait(), PATIENCE)
        except asyncio.TimeoutError:
            pass
        assert is_said(), f"{self.name} has not said {text!r}:\n" + "\n".join(self.lines)

    async def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            await self._reader


class RealHub:
    """A hub and its proxy. They have their files in a folder, and use a controller."""

    def __init__(self, folder: Path, controller) -> None:
        self.folder = folder
        self.controller = controller
        self.proxy = Program("the proxy")
        self.hub = Program("the hub")
        self.public = f"http://127.0.0.1:{free_port()}"
        self._proxy_port = free_port()
        self._servers: list[HTTPServer] = []
        self.database = "hub.sqlite"
        (folder / "hub-token").write_text(HUB_TOKEN)
        self.env = {
            "PYTHONPATH": str(HERE),
            "JUPYTERHUB_CRYPT_KEY": secrets.token_hex(32),
            "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
            "TEST_PUBLIC_URL": f"{self.public}/",
            "TEST_HUB_URL": f"http://127.0.0.1:{free_port()}/",
            "TEST_PROXY_API": f"http://127.0.0.1:{self._proxy_port}",
            "TEST_COOKIE_SECRET": str(folder / "cookie-secret"),
            "TEST_HUB_TOKEN": str(folder / "hub-token"),
            "TEST_CONTROLLER": controller.url,
        }
        controller.on_create = self.run_lab

    async def start(self) -> None:
        """Starts both, and waits until the hub answers."""
        proxy = os.environ["LUDGATE_TEST_HUB_PROXY"]
        public, api, hub = self.public.rsplit(":", 1)[1], str(self._proxy_port), self.env["TEST_HUB_URL"]
        addresses = ["--ip", "127.0.0.1", "--port", public, "--api-ip", "127.0.0.1", "--api-port", api]
        await self.proxy.run("node", proxy, *addresses, "--default-target", hub, env=self.env, cwd=self.folder)
        await self.proxy.has_said("Proxy API at")
        await self.start_hub()

    async def start_hub(self) -> None:
        """Starts the hub alone."""
        self.hub = Program("the hub")
        config = str(HERE / "hub_config.py")
        env = {**self.env, "TEST_DATABASE": f"sqlite:///{self.folder / self.database}"}
        await self.hub.run(sys.executable, "-m", "jupyterhub", "-f", config, env=env, cwd=self.folder)
        await self.hub.has_said("JupyterHub is now running")

    async def stop(self) -> None:
        """Ends both, and all labs."""
        await self.hub.kill()
        await self.proxy.kill()
        for server in self._servers:
            server.stop()
            await server.close_all_connections()

    async def serve_lab(self, lab) -> str:
        """Serves a lab on loopback, and gives its URL."""
        prefix = lab.body["env"]["JUPYTERHUB_SERVICE_PREFIX"]
        server = HTTPServer(web.Application([(".*", LabPage)], owner=lab.username, log_function=lambda _: None))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        self._servers.append(server)
        return f"http://127.0.0.1:{sockets[0].getsockname()[1]}{prefix}"

    async def run_lab(self, lab) -> None:
        """What the controller does for a create."""
        await lab.run(await self.serve_lab(lab))


class LabPage(web.RequestHandler):
    """A lab's only page."""

    def get(self) -> None:
        self.finish(f"The lab of {self.settings['owner']}")


class Browser:
    """A person's browser: cookies, and the forms of the hub."""

    def __init__(self, hub: RealHub, name: str, headers: dict | None = None) -> None:
        self.name = name
        # Released by each page of a start that gets its events.
        self.follows = asyncio.Semaphore(0)
        self.http = httpx.AsyncClient(
            base_url=hub.public, headers=headers, follow_redirects=True, timeout=PATIENCE, trust_env=False
        )

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_) -> None:
        await self.http.aclose()

    @property
    def xsrf(self) -> dict:
        """The parameter without which the hub refuses forms."""
        return {"_xsrf": next(c.value for c in self.http.cookies.jar if c.name == "_xsrf" and c.path == "/hub/")}

    async def sign_in(self) -> None:
        await self.http.get("/hub/login")
        fields = {"username": self.name, "password": ""}
        page = await self.http.post("/hub/login", params=self.xsrf, data=fields)
        assert page.status_code == 200, page.text

    async def form(self) -> httpx.Response:
        return await self.http.get(f"/hub/spawn/{self.name}")

    async def spawn(self, **fields: str) -> httpx.Response:
        """Sends the form. The answer is the page of the start."""
        return await self.http.post(f"/hub/spawn/{self.name}", params=self.xsrf, data=fields)

    async def progress(self) -> list[dict]:
        """All events that the page of the start shows, until its end."""
        events = []
        path = f"/hub/api/users/{self.name}/server/progress"
        async with self.http.stream("GET", path, params=self.xsrf) as response:
            assert response.status_code == 200
            self.follows.release()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line[len("data: ") :]))
        return events

    async def lab(self) -> httpx.Response:
        """The lab's page, through the proxy."""
        return await self.http.get(f"/user/{self.name}/lab")

    async def stop_lab(self) -> int:
        path = f"/hub/api/users/{self.name}/server"
        return (await self.http.delete(path, params=self.xsrf)).status_code

    async def server(self) -> dict | None:
        """What the hub knows about the lab."""
        user = (await self.http.get(f"/hub/api/users/{self.name}", params=self.xsrf)).json()
        return user["servers"].get("")

    async def lab_is_forgotten(self) -> None:
        """Asks the hub until it knows no lab."""
        while await self.server() is not None:
            continue
