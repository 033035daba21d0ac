"""Requests to the lab controller."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from .errors import ControllerUnreachable, LabError
from .event_stream import EventStreamParser, EventTooLong, Frame

# Largest answer that is read, in bytes. A form with thousands of images has one of them.
MAX_ANSWER = 16 * 1024 * 1024
# The controller sends a comment every 15 seconds. A stream that is silent for longer is dead.
SILENCE_SECONDS = 45
CONNECT_SECONDS = 10
# Answers of an outage, or of a proxy before the controller.
OUTAGES = frozenset({429, 502, 503, 504})
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


@dataclass(frozen=True)
class Answer:
    """An answer that was read whole."""

    status: int
    body: bytes
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        """2xx, or the 303 with which SQR-066 answers a create."""
        return 200 <= self.status < 300 or self.status == 303

    def json_object(self) -> dict:
        """The body. Raises `LabError` if it is no JSON object."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise LabError(502, "The lab controller's answer is no JSON object")
        return value


class StreamRefused(Exception):
    """The events were answered with an error that another try does not change."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class StreamBroken(Exception):
    """The events ended before their end: another try goes on."""


class Pause:
    """Growing pauses between tries."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    def reset(self) -> None:
        """The last try succeeded."""
        self._next = FIRST_PAUSE

    async def wait(self, deadline: float, retry_after: str = "") -> bool:
        """Waits for the next try. False at once, if the deadline comes before it."""
        seconds = self._next * random.uniform(0.8, 1.2)
        self._next = min(self._next * 2, LONGEST_PAUSE)
        if retry_after.isascii() and retry_after.isdigit():
            # Not `int`, which refuses thousands of digits.
            seconds = max(seconds, min(float(retry_after), 60))
        if time.monotonic() + seconds >= deadline:
            return False
        await asyncio.sleep(seconds)
        return True


class Controller:
    """The controller below a URL. Connections are shared by all spawners of a hub."""

    def __init__(self, url: str, ca_file: str = "") -> None:
        verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._url = url.rstrip("/")
        # Each start has one long answer, so the number of connections must not bound the number of starts. Redirects
        # are not followed: they would take tokens elsewhere.
        self._http = httpx.AsyncClient(
            verify=verify,
            # Answers are read as they are sent: a small compressed one can be a huge text.
            headers={"Accept-Encoding": "identity"},
            follow_redirects=False,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def ask_once(
        self, method: str, path: str, headers: dict, timeout: float, body: object = None
    ) -> Answer:
        """One try. Raises `ControllerUnreachable` if no answer comes within `timeout` seconds."""
        try:
            return await asyncio.wait_for(self._ask(method, path, headers, timeout, body), timeout)
        except (httpx.HTTPError, asyncio.TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise ControllerUnreachable(f"The lab controller does not answer ({reason})") from error

    async def _ask(self, method: str, path: str, headers: dict, timeout: float, body: object) -> Answer:
        limits = httpx.Timeout(timeout, connect=CONNECT_SECONDS)
        request = self._http.build_request(method, self._url + path, headers=headers, json=body, timeout=limits)
        response = await self._http.send(request, stream=True)
        try:
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > MAX_ANSWER:
                    raise LabError(502, "The lab controller's answer is too long")
        finally:
            await response.aclose()
        return Answer(response.status_code, bytes(read), response.headers.get("retry-after", ""))

    async def ask(
        self, method: str, path: str, headers: dict, deadline: float, timeout: float, body: object = None
    ) -> Answer:
        """Tries until there is an answer that is no outage, or the deadline (of `time.monotonic`) has come.

        Raises `ControllerUnreachable`.
        """
        pause = Pause()
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ControllerUnreachable("The lab controller does not answer in time")
            try:
                answer = await self.ask_once(method, path, headers, min(timeout, left), body)
            except ControllerUnreachable:
                if not await pause.wait(deadline):
                    raise
                continue
            if answer.status not in OUTAGES:
                return answer
            if not await pause.wait(deadline, answer.retry_after):
                raise ControllerUnreachable(f"The lab controller is out of order (status {answer.status})")

    async def events(self, path: str, headers: dict) -> AsyncIterator[Frame]:
        """The events of a stream, until it ends. Raises `StreamRefused` and `StreamBroken`."""
        parser = EventStreamParser()
        limits = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._http.stream("GET", self._url + path, headers=headers, timeout=limits) as response:
                if response.status_code in OUTAGES:
                    raise StreamBroken(f"status {response.status_code}")
                if response.status_code != 200:
                    raise StreamRefused(response.status_code)
                async for chunk in response.aiter_raw():
                    for frame in parser.feed(chunk):
                        yield frame
        except (httpx.HTTPError, EventTooLong) as error:
            raise StreamBroken(str(error) or type(error).__name__) from error
