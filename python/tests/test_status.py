"""What the hub asks about a lab, how it stops one, and the form."""

from __future__ import annotations

import asyncio

import pytest
from conftest import LoneSpawner, Person, on_record
from fake_controller import HUB_TOKEN, NUBLADO, SQR_066, token_of
from traitlets import TraitError

from ludgate_jupyterhub import LabError
from ludgate_jupyterhub import controller as client

LAB_URL = "http://lab.userlabs-rachel:8888/user/rachel/"
BOTH = pytest.mark.parametrize("controller", [{"dialect": NUBLADO}, {"dialect": SQR_066}], indirect=True)


async def test_nothing_is_taken_from_the_hubs_environment(spawner):
    assert spawner.env_keep == []
    assert (spawner.ip, spawner.port) == ("0.0.0.0", 8888)


async def test_form_fields_are_passed_on_as_they_are(spawner):
    fields = {"image_list": ["a"], "size": ["small"]}
    assert spawner.run_options_from_form(fields) == fields


@pytest.mark.parametrize("url", ["labs:8080", "ftp://labs/", "http://labs/?a=b", "http:///nublado"])
async def test_a_wrong_url_is_refused(spawner_for, url):
    with pytest.raises(TraitError):
        spawner_for(controller_url=url)


async def test_without_a_url_the_error_says_so():
    with pytest.raises(LabError, match="controller_url is not set"):
        await LoneSpawner(user=Person("rachel")).start()


# ---- poll


async def test_without_a_lab_poll_gives_0(controller, spawner):
    assert await spawner.poll() == 0
    assert controller.requests[0].token == HUB_TOKEN


@pytest.mark.parametrize(
    ("status", "code"),
    [("pending", None), ("running", None), ("terminating", 0), ("terminated", 0), ("failed", 1), ("new word", None)],
)
async def test_poll_gives_a_code_for_each_status(controller, spawner, status, code):
    controller.new_lab("rachel", {}).status = status
    assert await spawner.poll() == code


OUTAGES = [(500, ""), (503, ""), (403, ""), (302, "", ("Location", "/sign-in")), (200, "no JSON"), (200, "[]"), (0, "")]


@pytest.mark.parametrize("answer", OUTAGES, ids=lambda answer: f"{answer[0]} {answer[1]}")
async def test_an_outage_makes_the_hub_forget_no_lab(controller, spawner, caplog, answer):
    await spawner.start()
    controller.answers["GET", "rachel"] = [answer]
    assert await spawner.poll() is None
    assert "status of rachel's lab is not known" in caplog.text
    spawner.server = on_record()
    controller.answers["GET", "rachel"] = [answer]
    assert await spawner.poll() is None


async def test_an_outage_makes_up_no_lab(controller, spawner):
    await controller.stop()
    assert await spawner.poll() == 0


async def test_a_hub_that_restarted_keeps_its_labs_while_the_controller_is_away(controller, spawner_for):
    before = spawner_for()
    await before.start()
    state = before.get_state()
    assert state == {"internal_url": LAB_URL, "generation": 1}
    await controller.stop()
    after = spawner_for()
    after.load_state(state)
    assert await after.poll() is None
    assert await after.get_url() == LAB_URL


async def test_a_lab_that_is_gone_leaves_no_url(controller, spawner):
    await spawner.start()
    spawner.api_token = "of the lab"
    controller.labs.clear()
    assert await spawner.poll() == 0
    assert spawner.get_state() == {"generation": 1}
    # The hub revokes it after this.
    assert spawner.api_token == "of the lab"
    spawner.clear_state()
    assert spawner.api_token == ""
    assert spawner.get_state() == {"generation": 1}


async def test_a_state_of_another_spawner_is_taken(spawner):
    spawner.load_state({"pid": 3})
    assert spawner.get_state() == {}


async def test_a_silent_controller_does_not_block_the_poll(controller, spawner_for):
    spawner = spawner_for()
    await spawner.start()
    spawner.request_timeout = 0.2

    async def never(reader, writer):
        await reader.read()
        writer.close()

    await controller.stop()
    silent = await asyncio.start_server(never, "127.0.0.1", controller.port)
    try:
        assert await spawner.poll() is None
    finally:
        silent.close()


async def test_the_hubs_token_may_change(controller, spawner, tmp_path):
    (tmp_path / "hub-token").write_text("new")
    await spawner.poll()
    assert controller.requests[-1].token == "new"


async def test_a_missing_token_of_the_hub_is_named(controller, spawner, tmp_path):
    (tmp_path / "hub-token").unlink()
    with pytest.raises(LabError, match="token for the lab controller cannot be read"):
        await spawner.stop()


# ---- where the lab is


async def test_the_controller_knows_where_the_lab_is(controller, spawner):
    await spawner.start()
    controller.labs["rachel"].url = "http://moved:8888/"
    assert await spawner.get_url() == "http://moved:8888/"


async def test_a_start_of_a_hub_before_is_waited_for(controller, spawner):
    lab = controller.new_lab("rachel", {})
    spawner.server = on_record()
    asking = asyncio.ensure_future(spawner.get_url())
    await controller.has_been_asked("GET", "/events")
    await lab.run(LAB_URL)
    assert await asking == LAB_URL


async def test_without_a_url_the_hubs_own_is_given(controller, spawner):
    spawner.server = on_record()
    assert await spawner.get_url() == "http://10.0.0.9:8888/user/rachel/"


# ---- stop


@BOTH
async def test_stop_returns_when_the_lab_is_gone(controller, spawner):
    await spawner.start()

    async def go_slowly(_):
        for _ in range(20):
            await asyncio.sleep(0)

    controller.on_delete = go_slowly
    await spawner.stop()
    assert controller.labs == {}
    assert controller.asked("DELETE")[0].token == HUB_TOKEN
    assert "Prefer" not in controller.asked("DELETE")[0].headers


async def test_stop_now_returns_when_it_has_begun(controller, spawner):
    await spawner.start()
    held = asyncio.Event()
    controller.on_delete = lambda _: held.wait()
    await spawner.stop(now=True)
    assert controller.asked("DELETE")[0].headers["Prefer"] == "respond-async"
    assert await spawner.poll() == 0
    held.set()


async def test_a_lab_that_is_gone_is_stopped(controller, spawner):
    await spawner.stop()
    assert len(controller.asked("DELETE")) == 1


async def test_stop_is_tried_again_in_an_outage(controller, spawner):
    await spawner.start()
    controller.answers["DELETE", "rachel"] = [(503, ""), (0, ""), (502, "")]
    await spawner.stop()
    assert controller.labs == {}


async def test_a_refused_stop_is_an_error(controller, spawner):
    await spawner.start()
    controller.answers["DELETE", "rachel"] = [(500, '{"detail": [{"msg": "Pod is stuck", "type": "delete_failed"}]}')]
    with pytest.raises(LabError, match="Pod is stuck"):
        await spawner.stop()


@pytest.mark.parametrize("controller", [{"dialect": SQR_066}], indirect=True)
async def test_a_removal_that_fails_later_is_an_error(controller, spawner):
    await spawner.start()

    async def fail(lab):
        lab.status = "failed"
        await asyncio.Event().wait()

    controller.on_delete = fail
    with pytest.raises(LabError, match="could not be removed"):
        await spawner.stop()


@BOTH
async def test_stop_ends_at_its_deadline(controller, spawner_for):
    spawner = spawner_for(delete_timeout=0.5)
    await spawner.start()
    controller.on_delete = lambda _: asyncio.Event().wait()
    with pytest.raises(LabError) as caught:
        await spawner.stop()
    assert caught.value.status_code in (503, 504)


# ---- the form


async def test_the_form_is_that_of_the_person(controller, spawner):
    controller.form = "<select name='size'><option>größer</option></select>"
    assert await spawner.get_options_form() == controller.form
    assert controller.requests[0].token == token_of("rachel")


async def test_who_may_not_start_a_lab_is_told_so(controller, spawner):
    controller.answers["GET", "rachel"] = [(403, '{"detail": [{"msg": "No quota", "type": "permission_denied"}]}')]
    with pytest.raises(LabError, match="You may not start a lab. No quota") as caught:
        await spawner.get_options_form()
    assert caught.value.status_code == 403


@pytest.mark.parametrize("answer", [(500, ""), (503, ""), (0, "")])
async def test_in_an_outage_the_form_says_so(controller, spawner, answer):
    controller.answers["GET", "rachel"] = [answer]
    assert "cannot be shown now" in await spawner.get_options_form()


async def test_a_huge_answer_is_not_read(controller, spawner, monkeypatch):
    monkeypatch.setattr(client, "MAX_ANSWER", 1000)
    controller.form = "x" * 2000
    with pytest.raises(LabError, match="too long"):
        await spawner.get_options_form()


@pytest.mark.parametrize(("name", "path"), [("a/b", "a%2Fb"), ("ä b", "%C3%A4%20b"), ("a?b#c", "a%3Fb%23c")])
async def test_any_name_is_one_part_of_the_path(controller, spawner_for, name, path):
    await spawner_for(name).poll()
    assert controller.requests[0].path == f"/nublado/spawner/v1/labs/{path}"


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_is_no_step_in_the_path(controller, spawner_for, name):
    with pytest.raises(LabError, match="cannot be the name"):
        await spawner_for(name).stop()
    assert controller.requests == []
