"""A real JupyterHub with Ludgate as its proxy, by the lines of docs/jupyterhub-proxy.md."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from pathlib import Path

import httpx
import pytest
from ports import free_port
from real_hub import HERE, PATIENCE, Browser, Program
from tornado.websocket import websocket_connect

DOCUMENT = HERE.parents[1] / "docs" / "jupyterhub-proxy.md"
PREFIX = "/nb"
ROUTE = "/nb/user/rachel"


class HubBehindGateway:
    """A hub and the gateway that is its proxy. They have their files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gateway = Program("the gateway")
        self.hub = Program("the hub")
        self.port, self.api_port = free_port(), free_port()
        # What a browser's paths begin with.
        self.public = f"http://127.0.0.1:{self.port}{PREFIX}"
        self.api = f"http://127.0.0.1:{self.api_port}"
        self.token = secrets.token_hex(32)
        (folder / "hub-proxy-token").write_text(f"{self.token}\n")
        (folder / "homes").mkdir()
        self.env = {
            "TEST_PROXY_API": self.api,
            "TEST_PROXY_TOKEN": str(folder / "hub-proxy-token"),
            "TEST_HUB_URL": f"http://127.0.0.1:{free_port()}{PREFIX}/",
            "TEST_DATABASE": f"sqlite:///{folder / 'hub.sqlite'}",
            "TEST_COOKIE_SECRET": str(folder / "cookie-secret"),
            "TEST_HOMES": str(folder / "homes"),
        }

    async def start_gateway(self) -> None:
        """Starts the gateway with the table of the document."""
        (table,) = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
        assert f'prefix = "{PREFIX}"' in table
        table = table.replace(":8080", f":{self.port}").replace(":8001", f":{self.api_port}")
        others = f'[listen]\naddress = "127.0.0.1:{self.port}"\n[admin]\naddress = "127.0.0.1:0"\n'
        (self.folder / "ludgate.toml").write_text(others + table)
        self.gateway = Program("the gateway")
        program = os.environ["LUDGATE_TEST_PROGRAM"]
        await self.gateway.run(program, "gateway", "--config", "ludgate.toml", env={}, cwd=self.folder)
        await self.gateway.has_said("listening")

    async def start(self) -> None:
        """Starts both, and waits until the hub answers."""
        await self.start_gateway()
        config = str(HERE / "hub_proxy_config.py")
        await self.hub.run(sys.executable, "-m", "jupyterhub", "-f", config, env=self.env, cwd=self.folder)
        await self.hub.has_said("JupyterHub is now running")

    async def stop(self) -> None:
        """Ends both."""
        await self.hub.kill()
        await self.gateway.kill()

    async def routes(self) -> dict:
        """All routes, as the hub reads them."""
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(f"{self.api}/api/routes", headers={"Authorization": f"token {self.token}"})
        assert answer.status_code == 200
        return answer.json()

    async def last_activity(self) -> str:
        return (await self.routes())[ROUTE]["last_activity"]


class Person(Browser):
    """A person whose hub is below a prefix."""

    @property
    def xsrf(self) -> dict:
        """The parameter without which the hub refuses forms."""
        path = f"{PREFIX}/hub/"
        return {"_xsrf": next(c.value for c in self.http.cookies.jar if c.name == "_xsrf" and c.path == path)}

    async def start_server(self) -> None:
        path = f"/hub/api/users/{self.name}/server"
        started = await self.http.post(path, params=self.xsrf)
        assert started.status_code in (201, 202), started.text
        assert (await self.progress())[-1]["ready"]

    async def has_lab(self) -> None:
        """Opens the lab until it is there."""
        while (await self.lab()).status_code != 200:
            continue


@pytest.fixture
async def site(tmp_path):
    site = HubBehindGateway(tmp_path)
    yield site
    await site.stop()


async def test_a_person_starts_uses_and_stops_a_server(site):
    await site.start()
    assert (await site.routes())[PREFIX]["hub"] is True
    async with Person(site, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.start_server()
        assert (await rachel.lab()).text == f"The server of rachel at {ROUTE}/lab"
        route = (await site.routes())[ROUTE]
        assert (route["user"], route["server_name"], route["jupyterhub"]) == ("rachel", "", True)

        before = await site.last_activity()
        url = f"ws://127.0.0.1:{site.port}{ROUTE}/api/kernels/k/channels"
        socket = await websocket_connect(url)
        assert await site.last_activity() >= before

        async def has_moved_on() -> None:
            while await site.last_activity() <= before:
                await socket.write_message("run")
                assert await socket.read_message() == "run"

        await asyncio.wait_for(has_moved_on(), PATIENCE)

        assert await rachel.stop_lab() in (202, 204)
        await site.hub.has_said("User rachel server took")
        assert ROUTE not in await site.routes()
        # The WebSocket ends with the route.
        assert await asyncio.wait_for(socket.read_message(), PATIENCE) is None


async def test_the_hub_adds_its_routes_again_after_a_restart_of_the_gateway(site):
    await site.start()
    async with Person(site, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.start_server()
        await site.gateway.kill()
        await site.start_gateway()
        await asyncio.wait_for(rachel.has_lab(), PATIENCE)
        assert (await rachel.lab()).text == f"The server of rachel at {ROUTE}/lab"
        assert await rachel.stop_lab() in (202, 204)
        await site.hub.has_said("User rachel server took")
