"""A lab controller in the test's process, in both forms of the API, and its labs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from ports import free_port
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

HUB_TOKEN = "token-of-the-hub"
PREFIX = "/nublado/spawner/v1"
SQR_066 = "sqr-066"
NUBLADO = "nublado"


def token_of(username: str) -> str:
    """The token with which a person is known here."""
    return f"token-of-{username}"


@dataclass
class Request:
    """What was asked."""

    method: str
    path: str
    headers: dict
    body: dict | None

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


@dataclass
class Lab:
    """A lab, and the events of its last operation."""

    username: str
    body: dict = field(default_factory=dict)
    status: str = "pending"
    url: str | None = None
    number: int = 1
    events: list = field(default_factory=list)
    # Set while no more events come, as after the last one.
    is_over: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def emit(self, kind: str, message: str, progress: int | None = None) -> None:
        """Sends an event to all listeners."""
        async with self.changed:
            self.events.append((kind, message, progress))
            self.is_over = kind in ("complete", "failed")
            self.changed.notify_all()

    async def run(self, url: str) -> None:
        """The pod runs."""
        self.status, self.url = "running", url
        await self.emit("complete", f"Lab Kubernetes pod started for {self.username}")

    async def fail(self, error: str) -> None:
        """The pod ended."""
        self.status = "failed"
        await self.emit("error", error)
        await self.emit("failed", "Lab spawn failed")

    async def end_streams(self) -> None:
        """Listeners' streams end without a last event."""
        async with self.changed:
            self.is_over = True
            self.changed.notify_all()


class FakeController:
    """A controller that does what a test tells it."""

    def __init__(self, dialect: str = NUBLADO, with_ids: bool = True) -> None:
        self.dialect = dialect
        self.with_ids = with_ids
        self.labs: dict[str, Lab] = {}
        self.requests: list[Request] = []
        self._asked = asyncio.Event()
        self.form = "<p>Form</p>"
        # Answers that come first, by method and last part of the path: (status, body, headers).
        self.answers: dict[tuple[str, str], list[tuple]] = {}
        # Those wait for this.
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        # Number of events after which each connection is cut, for the next connections.
        self.cuts: list[int] = []
        # Called with each new lab.
        self.on_create = lambda lab: lab.run(f"http://lab.userlabs-{lab.username}:8888/user/{lab.username}/")
        # Called before a lab is gone.
        self.on_delete = lambda lab: asyncio.sleep(0)
        self.created = asyncio.Event()
        self.tasks: set[asyncio.Task] = set()
        self.port = 0
        self._server: HTTPServer | None = None
        self._operations = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/nublado"

    async def start(self) -> None:
        """Listens, after a stop on the same port as before."""
        name = "([^/]+)"
        routes = [
            (f"{PREFIX}/labs/{name}/create", CreateHandler),
            (f"{PREFIX}/labs/{name}/events", EventsHandler),
            (f"{PREFIX}/labs/{name}", LabHandler),
            (f"{PREFIX}/lab-form/{name}", FormHandler),
            (f"{PREFIX}/user-status", UserStatusHandler),
        ]
        self._server = HTTPServer(web.Application(routes, controller=self, log_function=lambda _: None))
        # After a stop, nothing else must have the port.
        self.port = self.port or free_port()
        self._server.add_sockets(bind_sockets(self.port, "127.0.0.1"))

    async def stop(self) -> None:
        """Stops listening, and cuts all connections."""
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()
            self._server = None

    def do(self, work) -> None:
        """Runs work beside the answers."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def new_lab(self, username: str, body: dict) -> Lab:
        self._operations += 1
        lab = Lab(username, body, number=self._operations)
        self.labs[username] = lab
        self.created.set()
        return lab

    def asked(self, method: str, last: str = "") -> list[Request]:
        """The requests of a method whose path ends so."""
        return [r for r in self.requests if r.method == method and r.path.endswith(last)]

    def record(self, request: Request) -> None:
        self.requests.append(request)
        self._asked.set()

    async def has_been_asked(self, method: str, last: str = "", times: int = 1) -> None:
        """Waits for requests of a method whose path ends so."""
        while len(self.asked(method, last)) < times:
            self._asked.clear()
            await asyncio.wait_for(self._asked.wait(), 60)

    def status(self, lab: Lab) -> dict:
        """The answer about a lab."""
        if self.dialect == NUBLADO:
            return {"user": {"username": lab.username}, "status": lab.status, "internal_url": lab.url}
        state = {"username": lab.username, "status": lab.status, "pod": "present", "events": []}
        return {**state, "internal_url": lab.url} if lab.status == "running" else state


class Handler(web.RequestHandler):
    """Records the request, and gives the answers that the test has laid out."""

    async def prepare(self) -> None:
        self.controller: FakeController = self.settings["controller"]
        body = json.loads(self.request.body) if self.request.body else None
        request = Request(self.request.method, self.request.path, dict(self.request.headers), body)
        self.controller.record(request)
        self.token = request.token
        laid_out = self.controller.answers.get((request.method, request.path.rsplit("/", 1)[1]))
        if laid_out:
            status, text, *headers = laid_out.pop(0)
            await self.controller.may_answer.wait()
            if status == 0:
                self.request.connection.stream.close()
                raise web.Finish
            self.set_status(status)
            for name, value in headers:
                self.set_header(name, value)
            self.finish(text)

    def refuse(self, status: int, message: str, kind: str) -> None:
        self.set_status(status)
        self.finish({"detail": [{"loc": ["path", "username"], "msg": message, "type": kind}]})
        raise web.Finish

    def needs(self, token: str) -> None:
        if self.token != token:
            self.refuse(403, "Access is denied", "permission_denied")

    def lab(self, username: str) -> Lab:
        lab = self.controller.labs.get(username)
        if lab is None:
            self.refuse(404, f"Unknown user {username}", "unknown_user")
        return lab


class FormHandler(Handler):
    def get(self, username: str) -> None:
        self.needs(token_of(username))
        self.finish(self.controller.form)


class CreateHandler(Handler):
    def post(self, username: str) -> None:
        self.needs(token_of(username))
        controller = self.controller
        if username in controller.labs and controller.labs[username].status != "failed":
            self.refuse(409, f"Lab for {username} already exists", "lab_exists")
        lab = controller.new_lab(username, controller.requests[-1].body)
        self.set_status(201 if controller.dialect == NUBLADO else 303)
        self.set_header("Location", f"{controller.url}/spawner/v1/labs/{username}")
        self.finish()
        controller.do(self.begin(lab))

    async def begin(self, lab: Lab) -> None:
        await lab.emit("info", f"Starting lab creation for {lab.username}", 2)
        await lab.emit("info", "Created Kubernetes objects for user lab", 45)
        await self.controller.on_create(lab)


class LabHandler(Handler):
    def get(self, username: str) -> None:
        self.needs(HUB_TOKEN)
        self.finish(self.controller.status(self.lab(username)))

    async def delete(self, username: str) -> None:
        self.needs(HUB_TOKEN)
        lab = self.lab(username)
        lab.status = "terminating"
        asynchronous = self.request.headers.get("Prefer") == "respond-async"
        if self.controller.dialect == SQR_066 or asynchronous:
            self.controller.do(self.remove(lab))
            self.set_status(202)
            self.finish()
            return
        await self.remove(lab)
        self.set_status(204)

    async def remove(self, lab: Lab) -> None:
        await self.controller.on_delete(lab)
        await lab.end_streams()
        self.controller.labs.pop(lab.username, None)


class UserStatusHandler(Handler):
    def get(self) -> None:
        username = self.token.removeprefix("token-of-")
        if self.token == username:
            self.refuse(401, "Token is not valid", "invalid_token")
        self.finish(self.controller.status(self.lab(username)))


class EventsHandler(Handler):
    async def get(self, username: str) -> None:
        self.needs(token_of(username))
        lab = self.lab(username)
        self.set_header("Content-Type", "text/event-stream")
        place = self.first_place(lab)
        cut_after = self.controller.cuts.pop(0) if self.controller.cuts else None
        self.write(": ping - 2026-01-02 03:04:05.000000+00:00\r\n\r\n")
        sent = 0
        while True:
            async with lab.changed:
                while place >= len(lab.events) and not lab.is_over:
                    await lab.changed.wait()
                events = lab.events[place:]
            if not events:
                return
            for event in events:
                if sent == cut_after:
                    await self.flush()
                    self.request.connection.stream.close()
                    raise web.Finish
                self.write(self.frames(event, f"{lab.number}-{place}"))
                place, sent = place + 1, sent + 1
            await self.flush()

    def first_place(self, lab: Lab) -> int:
        operation, _, place = self.request.headers.get("Last-Event-ID", "").partition("-")
        return int(place) + 1 if operation == str(lab.number) else 0

    def frames(self, event: tuple, identifier: str) -> str:
        kind, message, progress = event
        mark = f"id: {identifier}\r\n" if self.controller.with_ids else ""
        if self.controller.dialect == NUBLADO:
            data = {"message": message} if progress is None else {"message": message, "progress": progress}
            return f"{mark}event: {kind}\r\ndata: {json.dumps(data)}\r\n\r\n"
        if progress is None:
            return f"{mark}event: {kind}\r\ndata: {message}\r\n\r\n"
        return f"event: {kind}\r\ndata: {message}\r\n\r\n{mark}event: progress\r\ndata: {progress}\r\n\r\n"
