"""A real JupyterHub with this spawner: people sign in, choose, start, use and stop labs."""

from __future__ import annotations

import asyncio

import pytest
from fake_controller import NUBLADO, SQR_066, token_of
from fake_gateway import ASSERTION, AUDIENCE, FakeGateway
from real_hub import Browser, RealHub

CHOICE = {"image_list": "sketchbook:w_2077_43", "size": "small"}
WHOLE = [
    "Server requested",
    "[info] Starting lab creation for rachel",
    "[info] Created Kubernetes objects for user lab",
    "[complete] Lab Kubernetes pod started for rachel",
]


@pytest.fixture
async def hub(tmp_path, controller):
    hub = RealHub(tmp_path, controller)
    yield hub
    await hub.stop()


def held_lab(hub) -> asyncio.Event:
    """Labs do not run before this is set."""
    held = asyncio.Event()

    async def wait_and_run(lab):
        await held.wait()
        await hub.run_lab(lab)

    hub.controller.on_create = wait_and_run
    return held


def messages(events) -> list[str]:
    return [event["message"] for event in events]


@pytest.mark.parametrize("controller", [{"dialect": NUBLADO}, {"dialect": SQR_066}], indirect=True)
async def test_two_people_start_use_and_stop_their_labs(controller, hub):
    controller.form = '<select name="size"><option>small</option></select>'
    held = held_lab(hub)
    await hub.start()
    async with Browser(hub, "rachel") as rachel, Browser(hub, "tom") as tom:
        for person in (rachel, tom):
            await person.sign_in()
            assert controller.form in (await person.form()).text
            assert "spawn-pending" in str((await person.spawn(**CHOICE)).url)
        # Two tabs follow one start.
        following = [asyncio.ensure_future(person.progress()) for person in (rachel, rachel, tom)]
        for person in (rachel, rachel, tom):
            await person.follows.acquire()
        held.set()
        first, second, of_tom = await asyncio.gather(*following)
        assert messages(first) == [*WHOLE, "Server ready at /user/rachel/"]
        assert messages(second) == messages(first)
        assert of_tom[-1]["ready"]
        for person in (rachel, tom):
            assert (await person.lab()).text == f"The lab of {person.name}"
        create = controller.asked("POST", "rachel/create")[0]
        assert create.body["options"] == {"image_list": [CHOICE["image_list"]], "size": ["small"]}
        env = create.body["env"]
        assert env["JUPYTERHUB_USER"] == "rachel"
        assert env["JUPYTERHUB_SERVICE_PREFIX"] == "/user/rachel/"
        assert env["JUPYTERHUB_SERVICE_URL"] == "http://0.0.0.0:8888/user/rachel/"
        assert env["JUPYTERHUB_API_TOKEN"]
        assert "PATH" not in env and "JUPYTERHUB_CRYPT_KEY" not in env
        assert await rachel.stop_lab() in (202, 204)
        await hub.hub.has_said("User rachel server took")
        assert list(controller.labs) == ["tom"]
        assert await rachel.server() is None
        assert (await tom.lab()).text == "The lab of tom"


async def test_a_refused_choice_is_shown_with_the_controllers_text(controller, hub):
    controller.answers["POST", "create"] = [(400, '{"detail": [{"msg": "Image sketch:x not found"}]}')]
    controller.may_answer.clear()
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        following = asyncio.ensure_future(rachel.progress())
        await rachel.follows.acquire()
        controller.may_answer.set()
        failed = (await following)[-1]
        assert failed["failed"] and "Image sketch:x not found" in failed["message"]
        assert "Image sketch:x not found" in (await rachel.http.get("/hub/spawn-pending/rachel")).text
        assert await rachel.server() is None
    assert not controller.asked("DELETE")


async def test_a_lab_that_fails_ends_the_start_and_is_removed(controller, hub):
    held = asyncio.Event()

    async def fail(lab):
        await held.wait()
        await lab.fail("Error creating object (Secret nb, status 400): no")

    controller.on_create = fail
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        following = asyncio.ensure_future(rachel.progress())
        await rachel.follows.acquire()
        held.set()
        events = await following
        assert events[-1]["failed"]
        assert "Error creating object (Secret nb, status 400): no" in events[-1]["message"]
        assert await rachel.server() is None
    assert controller.labs == {}


async def test_a_hub_killed_in_a_start_finds_the_lab_afterwards(controller, hub):
    held = held_lab(hub)
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        await controller.has_been_asked("GET", "/events")
        await hub.hub.kill()
        starting = asyncio.ensure_future(hub.start_hub())
        await controller.has_been_asked("GET", "/events", times=2)
        held.set()
        await starting
        await hub.hub.has_said("rachel still running")
        assert (await rachel.lab()).text == "The lab of rachel"
        assert (await rachel.server())["ready"]
    assert (len(controller.asked("POST")), len(controller.asked("DELETE"))) == (1, 0)


async def test_labs_stay_while_the_controller_is_away(controller, hub):
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        assert (await rachel.progress())[-1]["ready"]
        await controller.stop()
        await hub.hub.has_said("status of rachel's lab is not known", times=2)
        assert (await rachel.lab()).text == "The lab of rachel"
        # A hub that restarts meanwhile knows it, too.
        await hub.hub.kill()
        await hub.start_hub()
        await hub.hub.has_said("rachel still running")
        assert (await rachel.lab()).text == "The lab of rachel"
        await controller.start()
        assert await rachel.stop_lab() in (202, 204)
        await hub.hub.has_said("User rachel server took")
    assert controller.labs == {}


async def test_a_lab_that_ends_by_itself_is_noticed(controller, hub):
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        assert (await rachel.progress())[-1]["ready"]
        controller.labs["rachel"].status = "terminated"
        await asyncio.wait_for(rachel.lab_is_forgotten(), 60)


async def test_a_lab_that_the_hub_does_not_know_is_replaced_once(controller, hub):
    await hub.start()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        assert (await rachel.progress())[-1]["ready"]
    await hub.hub.kill()
    hub.database = "empty.sqlite"
    await hub.start_hub()
    controller.requests.clear()
    async with Browser(hub, "rachel") as rachel:
        await rachel.sign_in()
        await rachel.spawn(**CHOICE)
        events = await rachel.progress()
        assert events[-1]["ready"]
        assert (await rachel.lab()).text == "The lab of rachel"
    assert (len(controller.asked("POST", "/create")), len(controller.asked("DELETE"))) == (2, 1)


async def test_the_gateway_signs_people_in(controller, hub):
    gateway = FakeGateway()
    await gateway.start()
    hub.env.update({"TEST_JWKS": gateway.url, "TEST_AUDIENCE": AUDIENCE})
    await hub.start()
    token = {"X-Auth-Request-Token": token_of("rachel")}
    async with Browser(hub, "rachel", {ASSERTION: gateway.sign(), **token}) as rachel:
        assert controller.form in (await rachel.form()).text
        await rachel.spawn(**CHOICE)
        assert (await rachel.progress())[-1]["ready"]
        assert (await rachel.lab()).text == "The lab of rachel"
        signed_out = await rachel.http.get("/hub/logout", follow_redirects=False)
        assert signed_out.headers["Location"] == "/oauth2/sign_out"
        assert controller.labs == {}
    await gateway.stop()


async def test_a_session_of_the_hub_is_that_of_the_gateways_person(controller, hub):
    gateway = FakeGateway()
    await gateway.start()
    hub.env.update({"TEST_JWKS": gateway.url, "TEST_AUDIENCE": AUDIENCE})
    await hub.start()
    plain = {"X-Auth-Request-User": "rachel", "X-Auth-Request-Token": token_of("rachel")}
    async with Browser(hub, "rachel", plain) as forger:
        assert (await forger.http.get("/hub/home")).status_code == 401
    async with Browser(hub, "rachel", {ASSERTION: gateway.sign()}) as rachel:
        assert await signed_in_as(rachel) == "rachel"
        made_up = {ASSERTION: "made.up.one"}
        assert (await rachel.http.get("/hub/home", headers=made_up)).status_code == 401
        assert await signed_in_as(rachel) == "rachel"
        tom = {ASSERTION: gateway.sign(sub="tom")}
        path = "/hub/api/users/rachel"
        assert (await rachel.http.get(path, params=rachel.xsrf, headers=tom)).status_code == 403
        assert await signed_in_as(rachel, tom) == "tom"
    await gateway.stop()


async def test_a_start_carries_the_newest_token(controller, hub):
    gateway = FakeGateway()
    await gateway.start()
    hub.env.update({"TEST_JWKS": gateway.url, "TEST_AUDIENCE": AUDIENCE})
    await hub.start()
    async with Browser(hub, "rachel", {ASSERTION: gateway.sign(), "X-Auth-Request-Token": "old"}) as rachel:
        await rachel.form()
        rachel.http.headers["X-Auth-Request-Token"] = token_of("rachel")
        await rachel.spawn(**CHOICE)
        assert (await rachel.progress())[-1]["ready"]
    assert [request.token for request in controller.asked("POST")] == [token_of("rachel")]
    await gateway.stop()


async def signed_in_as(browser, headers=None) -> str:
    await browser.http.get("/hub/home", headers=headers)
    user = await browser.http.get("/hub/api/user", params=browser.xsrf, headers=headers)
    return user.json()["name"]
