"""A start: the create, its events, and what goes wrong."""

from __future__ import annotations

import asyncio
import time

import pytest
from fake_controller import HUB_TOKEN, NUBLADO, SQR_066, token_of

from ludgate_jupyterhub import LabError
from ludgate_jupyterhub.controller import Pause

LAB_URL = "http://lab.userlabs-rachel:8888/user/rachel/"
BOTH = pytest.mark.parametrize("controller", [{"dialect": NUBLADO}, {"dialect": SQR_066}], indirect=True)


async def shown(spawner) -> list[tuple[int, str]]:
    return [(event["progress"], event["message"]) async for event in spawner.progress()]


def messages(events) -> list[str]:
    return [message for _, message in events]


WHOLE = [
    "[info] Starting lab creation for rachel",
    "[info] Created Kubernetes objects for user lab",
    "[complete] Lab Kubernetes pod started for rachel",
]


@BOTH
async def test_a_start_gives_the_url_when_the_lab_runs(controller, spawner):
    assert await spawner.start() == LAB_URL
    events = await shown(spawner)
    assert messages(events) == WHOLE
    assert events[-1][0] == 75
    assert controller.labs["rachel"].body == {
        "options": {"image_list": ["sketchbook:w_2077_43"], "size": ["small"]},
        "env": {"JUPYTERHUB_SERVICE_PREFIX": "/user/rachel/", "JUPYTERHUB_API_TOKEN": "secret", "EMPTY": ""},
    }


async def test_progress_is_that_of_the_controller(controller, spawner):
    await spawner.start()
    assert [percent for percent, _ in await shown(spawner)] == [2, 45, 75]


@pytest.mark.parametrize("controller", [{"dialect": SQR_066}], indirect=True)
async def test_progress_of_the_document_is_shown_with_the_next_message(controller, spawner):
    await spawner.start()
    assert [percent for percent, _ in await shown(spawner)] == [0, 2, 75]


async def test_the_person_starts_the_lab_and_the_hub_reads_its_status(controller, spawner):
    await spawner.start()
    tokens = [(request.method, request.path.rsplit("/", 1)[1], request.token) for request in controller.requests]
    user = token_of("rachel")
    assert tokens == [("POST", "create", user), ("GET", "events", user), ("GET", "rachel", HUB_TOKEN)]


@BOTH
async def test_a_lab_in_the_way_is_deleted_once_and_created_anew(controller, spawner):
    controller.new_lab("rachel", {"old": True}).status = "running"
    assert await spawner.start() == LAB_URL
    creates = controller.asked("POST", "/create")
    assert (len(creates), len(controller.asked("DELETE"))) == (2, 1)
    first, second = (request.headers["Idempotency-Key"] for request in creates)
    assert first.startswith("jupyterhub-user-rachel-") and first.endswith("-1")
    assert second == first[:-1] + "2"
    events = await shown(spawner)
    assert events[0] == (1, "[warning] Deleting existing orphaned lab")
    assert messages(events[1:]) == WHOLE


async def test_a_lab_that_comes_back_is_not_deleted_again(controller, spawner):
    conflict = (409, '{"detail": [{"msg": "Lab for rachel already exists", "type": "lab_exists"}]}')
    controller.answers["POST", "create"] = [conflict, conflict]
    with pytest.raises(LabError, match="already exists") as caught:
        await spawner.start()
    assert caught.value.status_code == 409
    assert len(controller.asked("DELETE")) == 1


@BOTH
async def test_a_broken_stream_goes_on_after_the_last_event(controller, spawner):
    controller.cuts = [1, 0, 1]
    assert await spawner.start() == LAB_URL
    assert messages(await shown(spawner)) == WHOLE
    sent = [request.headers.get("Last-Event-Id") for request in controller.asked("GET", "/events")]
    assert sent == [None, "1-0", "1-0", "1-1"]


@pytest.mark.parametrize("controller", [{"with_ids": False}], indirect=True)
async def test_without_ids_no_event_is_shown_twice(controller, spawner):
    controller.cuts = [1, 2]
    assert await spawner.start() == LAB_URL
    assert messages(await shown(spawner)) == WHOLE


async def test_a_controller_that_restarts_is_asked_until_it_is_back(controller, spawner):
    held = asyncio.Event()

    async def start_slowly(lab):
        await held.wait()
        await lab.run(LAB_URL)

    controller.on_create = start_slowly
    starting = asyncio.ensure_future(spawner.start())
    await controller.created.wait()
    await controller.stop()
    assert await spawner.poll() is None
    await controller.start()
    held.set()
    assert await starting == LAB_URL
    assert messages(await shown(spawner)) == WHOLE
    assert not controller.asked("DELETE")


async def test_a_stream_that_ends_says_nothing_about_a_lab_that_starts(controller, spawner):
    asked_again = asyncio.Event()

    async def end_and_run_later(lab):
        await lab.end_streams()
        await controller.has_been_asked("GET", "/events", times=2)
        asked_again.set()
        await lab.run(LAB_URL)

    controller.on_create = end_and_run_later
    assert await spawner.start() == LAB_URL
    assert asked_again.is_set()


async def test_a_stream_that_ends_without_an_end_is_no_success(controller, spawner):
    async def die(lab):
        lab.status = "terminated"
        await lab.end_streams()

    controller.on_create = die
    with pytest.raises(LabError, match="its status is terminated"):
        await spawner.start()


async def test_a_stream_that_ends_while_the_lab_runs_is_a_success(controller, spawner):
    async def run_silently(lab):
        lab.status, lab.url = "running", LAB_URL
        await lab.end_streams()

    controller.on_create = run_silently
    assert await spawner.start() == LAB_URL


async def test_a_lab_that_fails_is_named_and_removed(controller, spawner):
    controller.on_create = lambda lab: lab.fail("Error creating object (Secret nb, status 400): no")
    with pytest.raises(LabError) as caught:
        await spawner.start()
    assert caught.value.jupyterhub_message == "Error creating object (Secret nb, status 400): no"
    assert controller.labs == {}
    assert messages(await shown(spawner))[-1] == "[failed] Lab spawn failed"
    assert await spawner.poll() == 0


async def test_a_create_is_tried_again_with_the_same_key(controller, spawner):
    controller.answers["POST", "create"] = [(503, ""), (0, ""), (429, "", ("Retry-After", "0")), (502, "")]
    assert await spawner.start() == LAB_URL
    keys = {request.headers["Idempotency-Key"] for request in controller.asked("POST", "/create")}
    assert (len(controller.asked("POST", "/create")), len(keys)) == (5, 1)


async def test_no_server_can_ask_for_a_pause_without_an_end():
    # Without an error, and 60 seconds, which are more than are left.
    assert not await Pause().wait(time.monotonic() + 30, "9" * 5000)


async def test_each_start_has_a_key_of_its_own(controller, spawner):
    await spawner.start()
    await spawner.stop()
    spawner.clear_state()
    await spawner.start()
    assert len({request.headers["Idempotency-Key"] for request in controller.asked("POST", "/create")}) == 2
    assert messages(await shown(spawner)) == WHOLE


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refused_create_shows_the_controllers_text(controller, spawner, status):
    controller.answers["POST", "create"] = [(status, '{"detail": [{"msg": "Image sketch:x not found"}]}')]
    with pytest.raises(LabError, match="Image sketch:x not found") as caught:
        await spawner.start()
    assert caught.value.status_code == status
    assert not controller.asked("DELETE")


async def test_a_lab_that_never_runs_ends_at_the_deadline(controller, spawner_for):
    controller.on_create = lambda lab: lab.end_streams()
    spawner = spawner_for(start_timeout=3)
    with pytest.raises(LabError, match="in time") as caught:
        await spawner.start()
    assert caught.value.status_code == 504
    # The hub stops the lab, which still starts for all that is known.
    assert await spawner.poll() is None


async def test_a_cancelled_start_leaves_the_lab_to_the_hub(controller, spawner):
    controller.on_create = lambda lab: asyncio.sleep(0)
    starting = asyncio.ensure_future(spawner.start())
    await controller.created.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not controller.asked("DELETE")
    # Listeners end with the start.
    await asyncio.wait_for(shown(spawner), 30)
    await spawner.stop()
    assert controller.labs == {}


async def test_a_lapsed_token_does_not_end_a_start_that_goes_on(controller, spawner):
    async def run_without_listener(lab):
        spawner.user.state = {"token": "lapsed"}
        await lab.end_streams()
        await controller.has_been_asked("GET", "/events", times=2)
        await lab.run(LAB_URL)

    controller.on_create = run_without_listener
    assert await spawner.start() == LAB_URL
    assert controller.asked("GET", "/events")[1].token == "lapsed"


async def test_any_number_of_listeners_get_all_events(controller, spawner):
    held = asyncio.Event()

    async def start_slowly(lab):
        await held.wait()
        await lab.run(LAB_URL)

    controller.on_create = start_slowly
    early = [asyncio.ensure_future(shown(spawner)) for _ in range(3)]
    starting = asyncio.ensure_future(spawner.start())
    await controller.created.wait()
    late = asyncio.ensure_future(shown(spawner))
    held.set()
    await starting
    for listener in [*early, late]:
        assert messages(await listener) == WHOLE


async def test_two_hundred_starts_run_at_once(controller, spawner_for):
    everyone = asyncio.Event()

    async def wait_for_everyone(lab):
        if len(controller.labs) == 200:
            everyone.set()
        await everyone.wait()
        await lab.run(f"http://lab-{lab.username}:8888/")

    controller.on_create = wait_for_everyone
    spawners = [spawner_for(f"person-{number}") for number in range(200)]
    urls = await asyncio.gather(*(spawner.start() for spawner in spawners))
    assert urls == [f"http://lab-person-{number}:8888/" for number in range(200)]


async def test_servers_with_names_touch_no_lab(controller, spawner):
    controller.new_lab("rachel", {}).status = "running"
    spawner.server_name = "second"
    with pytest.raises(LabError, match="one lab"):
        await spawner.start()
    assert await spawner.poll() == 0
    await spawner.stop()
    assert controller.requests == []


async def test_a_token_of_another_person_is_found_before_anything_is_changed(controller, spawner_for):
    spawner = spawner_for(verify_user_token=True)
    assert await spawner.start() == LAB_URL
    controller.new_lab("tom", {}).status = "running"
    spawner.user.state = {"token": token_of("tom")}
    with pytest.raises(LabError, match="another person's"):
        await spawner.start()
    spawner.user.state = {"token": "lapsed"}
    with pytest.raises(LabError, match="Token is not valid"):
        await spawner.start()
    assert not controller.asked("DELETE")
    assert len(controller.asked("POST")) == 1


@pytest.mark.parametrize("state", [None, {}, {"token": ""}])
async def test_a_person_without_a_token_is_told_to_sign_in(controller, spawner, state):
    spawner.user.state = state
    with pytest.raises(LabError, match="sign in again") as caught:
        await spawner.start()
    assert caught.value.status_code == 403
    assert controller.requests == []


async def test_no_error_shows_a_token(controller, spawner):
    spawner.user.state = {"token": "secret\nsecond: line"}
    with pytest.raises(LabError) as caught:
        await spawner.start()
    assert "secret" not in str(caught.value)
    assert controller.requests == []


async def test_trusted_headers_name_the_person(controller, spawner_for):
    spawner = spawner_for(send_user_headers=True)
    await spawner.start()
    create = controller.asked("POST", "/create")[0]
    assert create.headers["X-Auth-Request-User"] == "rachel"
    assert create.headers["X-Auth-Request-Token"] == token_of("rachel")
    assert "X-Auth-Request-User" not in controller.asked("GET", "/rachel")[0].headers


async def test_files_are_no_options(controller, spawner):
    spawner.user_options = {"upload_file": [{"filename": "a", "body": b"bytes"}]}
    with pytest.raises(LabError, match="files cannot be sent"):
        await spawner.start()


async def test_a_redirect_takes_no_token_elsewhere(controller, spawner):
    elsewhere = f"{controller.url}/spawner/v1/lab-form/rachel"
    controller.answers["GET", "events"] = [(307, "", ("Location", elsewhere))]
    assert await spawner.start() == LAB_URL
    assert not controller.asked("GET", "lab-form/rachel")
