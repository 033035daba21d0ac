"""The spawner: each person has one lab, and a lab controller makes, watches and removes it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

from jupyterhub.spawner import Spawner
from traitlets import Bool, Float, TraitError, Unicode, default, validate

from .answers import StartFailed, checked_header, raise_refusal, url_if_running
from .controller import OUTAGES, Answer, Controller, Pause, StreamBroken, StreamRefused
from .errors import ControllerUnreachable, LabError, error_text
from .progress import StartProgress
from .start_events import StartEvents

# What the page of a start shows while the controller cannot be asked. It is in a form, with a button below.
NO_FORM = """
<p class="alert alert-warning">The choice of labs cannot be shown now: the lab controller does not answer.
Please reload this page in a minute.</p>
"""
LATE = "The lab did not start in time"


class RESTSpawner(Spawner):
    """Starts and stops labs by the API of a lab controller (SQR-066, and Nublado's form of it).

    The person's own token starts labs, so the hub cannot start one for a person who has not signed in. It is in the
    authentication state. The hub's token stops labs and reads their status.
    """

    controller_url = Unicode(
        help="""URL of the lab controller, up to and without `/spawner/v1`.

        For example `http://ludgate-labs.hub.svc:8083/nublado`.
        """,
    ).tag(config=True)
    hub_token_file = Unicode(
        "/etc/ludgate/hub-token",
        help="File with the hub's token for the controller. It is read for each request, so it may change.",
    ).tag(config=True)
    ca_file = Unicode(
        "",
        help="File with the certificates (PEM) of authorities that the controller's certificate may be from. "
        "Empty: the usual ones.",
    ).tag(config=True)
    verify_user_token = Bool(
        False,
        help="""Ask the controller before each start to whom the token of the person belongs.

        If it has lapsed or is another person's, the start ends before anything is changed. The controller refuses such
        tokens by itself: this makes a difference if a lab is in the way, which would be removed otherwise.
        """,
    ).tag(config=True)
    user_token_key = Unicode("token", help="Key of the person's token in the authentication state.").tag(config=True)
    send_user_headers = Bool(
        False,
        help="""Name the person in `X-Auth-Request-User`, and send the token in `X-Auth-Request-Token` as well.

        For controllers that take these headers from the hub's address. Then people need no token.
        """,
    ).tag(config=True)
    request_timeout = Float(60, help="Seconds after which a request to the controller is tried again.").tag(config=True)
    delete_timeout = Float(300, help="Seconds in which a lab must be gone after it was stopped.").tag(config=True)

    # One per event loop, URL and authorities.
    _controllers: WeakKeyDictionary = WeakKeyDictionary()

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._internal_url = ""
        # Whether the lab was started, and has not been seen to be gone.
        self._may_exist = False
        self._generation = 0
        self._progress = StartProgress()

    @default("env_keep")
    def _default_env_keep(self) -> list:
        # The hub's own environment is nothing for a pod.
        return []

    @default("ip")
    def _default_ip(self) -> str:
        # Where a lab listens in its pod.
        return "0.0.0.0"

    @default("port")
    def _default_port(self) -> int:
        return 8888

    @default("options_form")
    def _default_options_form(self):
        return type(self).lab_form

    @default("apply_user_options")
    def _default_apply_user_options(self):
        # They are the controller's; JupyterHub (5.3 and later) warns of options that are not applied here.
        return lambda spawner, options: None

    @validate("controller_url")
    def _check_controller_url(self, proposal) -> str:
        parts = urlsplit(proposal.value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise TraitError("RESTSpawner.controller_url must be an http or https URL without query and fragment")
        return proposal.value.rstrip("/")

    @property
    def _controller(self) -> Controller:
        if not self.controller_url:
            raise LabError(500, "RESTSpawner.controller_url is not set")
        of_loop = self._controllers.setdefault(asyncio.get_running_loop(), {})
        key = (self.controller_url, self.ca_file)
        if key not in of_loop:
            of_loop[key] = Controller(*key)
        return of_loop[key]

    def _path(self, before: str, after: str = "") -> str:
        name = self.user.name
        if name in (".", ".."):
            # Clients and proxies would take it for a step in the path.
            raise LabError(400, f"{name!r} cannot be the name of a lab's owner")
        return f"/spawner/v1/{before}/{quote(name, safe='')}{after}"

    def _hub_headers(self) -> dict:
        try:
            token = Path(self.hub_token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(500, "The hub's token for the lab controller cannot be read") from error
        return {"Authorization": f"Bearer {checked_header(token)}"}

    async def _user_headers(self) -> dict:
        # Read each time: the authenticator may have replaced the token since the last request.
        state = await self.user.get_auth_state() or {}
        token = state.get(self.user_token_key)
        headers = {"X-Auth-Request-User": checked_header(self.user.name)} if self.send_user_headers else {}
        if token:
            headers["Authorization"] = f"Bearer {checked_header(token)}"
            if self.send_user_headers:
                headers["X-Auth-Request-Token"] = token
        if not headers:
            raise LabError(403, "The hub has no token of yours for the lab controller. Please sign in again.")
        return headers

    # ---- the form

    async def lab_form(self) -> str:
        """The form of this person, as HTML. Raises `LabError` if the controller refuses it."""
        headers = await self._user_headers()
        try:
            answer = await self._controller.ask_once("GET", self._path("lab-form"), headers, self.request_timeout)
        except ControllerUnreachable as error:
            self.log.warning("No form for %s: %s", self.user.name, error)
            return NO_FORM
        if answer.status >= 500 or answer.status in OUTAGES:
            self.log.warning("No form for %s: status %s", self.user.name, answer.status)
            return NO_FORM
        if answer.status == 403:
            raise LabError(403, f"You may not start a lab. {error_text(answer.body)}".strip())
        raise_refusal(answer, "show the choice of labs")
        return answer.body.decode("utf-8", "replace")

    # ---- start

    async def start(self) -> str:
        """Starts the lab, and gives its URL when it runs. Raises `LabError`."""
        if self._progress.has_ended:
            self._progress = StartProgress()
        progress = self._progress
        self._generation += 1
        self._internal_url, self._may_exist = "", True
        deadline = time.monotonic() + self.start_timeout
        try:
            self._refuse_named_server()
            if self.verify_user_token:
                await self._check_owner_of_token(deadline)
            await self._create(progress, deadline)
            try:
                self._internal_url = await self._follow(progress, deadline)
            except StartFailed:
                # The hub does not stop a lab that has ended by itself.
                await self._remove_failed()
                raise
            return self._internal_url
        finally:
            await progress.end()

    def _refuse_named_server(self) -> None:
        if self.name:
            raise LabError(400, "Each person has one lab: servers with names of their own cannot be started")

    async def _check_owner_of_token(self, deadline: float) -> None:
        headers = await self._user_headers()
        answer = await self._controller.ask(
            "GET", "/spawner/v1/user-status", headers, deadline, self.request_timeout
        )
        if answer.status == 404:
            # No lab. The token is good, and the controller compares its owner at the create.
            return
        raise_refusal(answer, "check your sign-in")
        state = answer.json_object()
        user = state.get("user")
        owner = user.get("username") if isinstance(user, dict) else state.get("username")
        if owner != self.user.name:
            raise LabError(403, "The token in your sign-in is another person's. Please sign in again.")

    async def _create(self, progress: StartProgress, deadline: float) -> None:
        body = {"options": self._json_options(), "env": self._json_env()}
        attempt_of = f"{self.oauth_client_id}-{uuid.uuid4().hex}"
        answer = await self._post_create(body, f"{attempt_of}-1", deadline)
        if answer.status == 409:
            # A lab that the hub does not know: its options and its tokens are old.
            await progress.add("warning", "Deleting existing orphaned lab", 1)
            await self._delete(deadline=min(deadline, time.monotonic() + self.delete_timeout))
            answer = await self._post_create(body, f"{attempt_of}-2", deadline)
        raise_refusal(answer, "start the lab")

    async def _post_create(self, body: dict, key: str, deadline: float) -> Answer:
        # The key makes another try after a lost answer the same create.
        headers = {**await self._user_headers(), "Idempotency-Key": key}
        path = self._path("labs", "/create")
        return await self._controller.ask("POST", path, headers, deadline, self.request_timeout, body)

    def _json_options(self) -> dict:
        options = self.user_options or {}
        try:
            json.dumps(options)
        except (TypeError, ValueError) as error:
            raise LabError(400, "The options of a lab are texts; files cannot be sent") from error
        return options

    def _json_env(self) -> dict:
        return {name: str(value) for name, value in self.get_env().items() if value is not None}

    async def _follow(self, progress: StartProgress, deadline: float) -> str:
        """Shows the events until the lab runs, and gives its URL. Raises `LabError`."""
        path = self._path("labs", "/events")
        events = StartEvents(self._controller, path, self._user_headers, progress)
        pause = Pause()
        while True:
            try:
                ended_with = await events.read(pause)
            except StreamBroken as error:
                self.log.warning("The events of %s's lab broke off: %s", self.user.name, error)
                if not await pause.wait(deadline):
                    raise LabError(504, LATE) from error
                continue
            except StreamRefused as error:
                self.log.warning("The events of %s's lab cannot be read: %s", self.user.name, error)
                ended_with = None
            if ended_with == "failed":
                raise StartFailed(progress.error or "The lab could not be started")
            try:
                answer = await self._status(deadline)
            except ControllerUnreachable as error:
                raise LabError(504, f"{LATE}. {error.jupyterhub_message}") from error
            url = url_if_running(answer)
            if url:
                return url
            # Without an end of the operation, the stream's end says nothing about the lab: it goes on.
            if not await pause.wait(deadline):
                raise LabError(504, LATE)

    async def _remove_failed(self) -> None:
        try:
            await self._delete(deadline=time.monotonic() + min(self.delete_timeout, self.request_timeout))
        except LabError as error:
            self.log.warning("The failed lab of %s is not removed: %s", self.user.name, error)

    async def progress(self) -> AsyncIterator[dict]:
        """Everything that happened in the start that runs, or that is about to: then what happens. Ends with it."""
        async for event in self._progress.listen():
            yield event

    # ---- stop

    async def stop(self, now: bool = False) -> None:
        """Removes the lab, and waits until it is gone; with `now`, only until that has begun. Raises `LabError`."""
        if self.name:
            return
        await self._delete(deadline=time.monotonic() + self.delete_timeout, wait=not now)

    async def _delete(self, deadline: float, wait: bool = True) -> None:
        path = self._path("labs")
        headers = self._hub_headers()
        if not wait:
            headers["Prefer"] = "respond-async"
        # The answer may come only when the lab is gone, so there is no shorter time for one try.
        answer = await self._controller.ask("DELETE", path, headers, deadline, self.delete_timeout)
        if answer.status != 404:
            raise_refusal(answer, "remove the lab")
        if answer.status == 202 and wait:
            await self._wait_until_gone(deadline)

    async def _wait_until_gone(self, deadline: float) -> None:
        # The events of the removal need the person's token, which the hub does not always have.
        pause = Pause()
        while True:
            answer = await self._status(deadline)
            if answer.status == 404:
                return
            raise_refusal(answer, "read the status of the lab")
            if answer.json_object().get("status") == "failed":
                raise LabError(500, "The lab could not be removed")
            if not await pause.wait(deadline):
                raise LabError(504, "The lab was not removed in time")

    # ---- what is known about the lab

    async def poll(self) -> int | None:
        """None while the lab starts or runs, 0 if there is none, 1 if it failed.

        Also None if the controller does not say: the hub would forget the lab otherwise, or stop it.
        """
        if self.name:
            return 0
        try:
            answer = await self._status_now()
            if answer.status == 404:
                # Not `clear_state`: the hub reads the lab's token after this, to revoke it.
                self._internal_url, self._may_exist = "", False
                return 0
            raise_refusal(answer, "read the status of the lab")
            status = answer.json_object().get("status")
        except LabError as error:
            self.log.error("The status of %s's lab is not known: %s", self.user.name, error)
            return None if self._may_exist or self.server is not None else 0
        if status == "failed":
            return 1
        return 0 if status in ("terminating", "terminated") else None

    async def _status_now(self) -> Answer:
        headers = self._hub_headers()
        return await self._controller.ask_once("GET", self._path("labs"), headers, self.request_timeout)

    async def _status(self, deadline: float) -> Answer:
        headers = self._hub_headers()
        return await self._controller.ask("GET", self._path("labs"), headers, deadline, self.request_timeout)

    async def get_url(self) -> str:
        """Where the hub and its proxy reach the lab. Waits for a start that a hub before this one has begun."""
        try:
            answer = await self._status_now()
            if answer.status == 200 and answer.json_object().get("status") == "pending":
                deadline = time.monotonic() + self.start_timeout
                self._internal_url = await self._follow(StartProgress(), deadline)
            else:
                self._internal_url = url_if_running(answer) or self._internal_url
        except LabError as error:
            self.log.warning("The URL of %s's lab is not known: %s", self.user.name, error)
        return self._internal_url or await super().get_url()

    def get_state(self) -> dict:
        """What a hub after this one needs while the controller is away."""
        state = super().get_state()
        if self._internal_url:
            state["internal_url"] = self._internal_url
        if self._generation:
            state["generation"] = self._generation
        return state

    def load_state(self, state: dict) -> None:
        """Takes what `get_state` gave."""
        super().load_state(state)
        self._internal_url = state.get("internal_url", "")
        self._may_exist = bool(self._internal_url)
        self._generation = state.get("generation", 0)

    def clear_state(self) -> None:
        """The lab is gone. The number of starts stays."""
        super().clear_state()
        self._internal_url, self._may_exist = "", False
