"""The progress of one start: events of the controller, as the hub shows them to any number of listeners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from .event_stream import Frame

# Progress when the lab runs, in per cent. What is left is the time until it answers the hub.
STARTED = 75
# Most events that are kept, and the longest message in characters.
MAX_EVENTS = 1000
MAX_MESSAGE = 4096
_SEVERITIES = ("info", "error", "failed", "complete")


class StartProgress:
    """What happened so far in a start."""

    def __init__(self) -> None:
        self.has_ended = False
        # The last message of an error.
        self.error = ""
        self._events: list[dict] = []
        self._percent = 0
        self._changed = asyncio.Condition()

    async def add(self, severity: str, message: str, percent: int | None = None) -> None:
        """Adds a message, and wakes the listeners. Without `percent`, nothing more is done than before."""
        if percent is not None:
            self._percent = percent
        is_last = severity in ("failed", "complete")
        if len(self._events) >= MAX_EVENTS and not is_last:
            return
        event = {"progress": self._percent, "message": f"[{severity}] {message[:MAX_MESSAGE]}"}
        async with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    async def add_frame(self, frame: Frame) -> str | None:
        """Adds an event of the controller. Gives "complete" or "failed" if the operation ends with it."""
        if frame.kind == "ping":
            return None
        if frame.kind == "progress":
            # SQR-066 has progress in events of its own. It is shown with the next message.
            self._percent = _percent(frame.data, self._percent)
            return None
        message, percent = read_data(frame.data)
        if frame.kind == "complete":
            percent = max(self._percent, STARTED)
        if frame.kind == "error":
            self.error = message
        severity = frame.kind if frame.kind in _SEVERITIES else "unknown"
        await self.add(severity, message, percent)
        return severity if severity in ("complete", "failed") else None

    async def end(self) -> None:
        """The start has ended: listeners get what is left, and end."""
        async with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    async def listen(self) -> AsyncIterator[dict]:
        """All events from the first one on, until the start ends."""
        place = 0
        while True:
            async with self._changed:
                while place == len(self._events) and not self.has_ended:
                    await self._changed.wait()
                events = self._events[place:]
            if not events:
                return
            place += len(events)
            for event in events:
                yield dict(event)


def read_data(data: str) -> tuple[str, int | None]:
    """Message and progress of an event's data.

    JSON with other keys or other types is shown as it is, and so is plain text.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data, None
    if not isinstance(value, dict) or not value.keys() <= {"message", "progress"}:
        return data, None
    message, percent = value.get("message"), value.get("progress")
    if not isinstance(message, str):
        return data, None
    if percent is None:
        return message, None
    if isinstance(percent, bool) or not isinstance(percent, int) or not 0 <= percent <= 100:
        return data, None
    return message, percent


def _percent(text: str, otherwise: int) -> int:
    try:
        percent = int(text)
    except ValueError:
        return otherwise
    return percent if 0 <= percent <= 100 else otherwise
