"""A controller, and spawners that use it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_controller import HUB_TOKEN, FakeController, token_of

from ludgate_jupyterhub import RESTSpawner
from ludgate_jupyterhub import controller as client


class LoneSpawner(RESTSpawner):
    """A spawner without a hub around it."""

    server_name = ""

    @property
    def name(self) -> str:
        return self.server_name

    def get_env(self) -> dict:
        """What a hub gives to a lab, as far as the controller needs it."""
        prefix = f"/user/{self.user.name}/"
        return {"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_API_TOKEN": "secret", "EMPTY": "", "NONE": None}


class Person:
    """A person of the hub."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: dict | None = {"token": token_of(name)}

    async def get_auth_state(self) -> dict | None:
        return self.state


@pytest.fixture
async def controller(request):
    fake = FakeController(**getattr(request, "param", {}))
    await fake.start()
    yield fake
    await fake.stop()
    for task in list(fake.tasks):
        task.cancel()


@pytest.fixture
def spawner_for(controller, tmp_path, monkeypatch):
    """Makes a spawner for a person. Pauses between tries are short."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(client, "LONGEST_PAUSE", 0.05)
    token_file = tmp_path / "hub-token"
    token_file.write_text(f"{HUB_TOKEN}\n")

    def make(name: str = "rachel", **traits) -> LoneSpawner:
        settings = {"controller_url": controller.url, "hub_token_file": str(token_file), "start_timeout": 20, **traits}
        spawner = LoneSpawner(user=Person(name), **settings)
        spawner.oauth_client_id = f"jupyterhub-user-{name}"
        spawner.user_options = {"image_list": ["sketchbook:w_2077_43"], "size": ["small"]}
        return spawner

    return make


@pytest.fixture
def spawner(spawner_for):
    return spawner_for()


def on_record() -> SimpleNamespace:
    """A server that the hub has in its database."""
    return SimpleNamespace(url="http://10.0.0.9:8888/user/rachel/", orm_server=None)
