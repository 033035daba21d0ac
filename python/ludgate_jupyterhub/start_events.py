"""The events of one start, over any number of connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .controller import Controller, Pause
from .progress import StartProgress


class StartEvents:
    """Reads the events of a start into its progress, and goes on where a connection broke off."""

    def __init__(
        self,
        controller: Controller,
        path: str,
        headers: Callable[[], Awaitable[dict]],
        progress: StartProgress,
    ) -> None:
        """`headers` gives those that name the person, anew for each connection."""
        self._controller = controller
        self._path = path
        self._headers = headers
        self._progress = progress
        self._last_id = ""
        self._seen = 0

    async def read(self, pause: Pause) -> str | None:
        """Reads on until the stream ends. Gives "complete" or "failed" if it says so.

        Raises `StreamBroken`, `StreamRefused` and `LabError`.
        """
        headers = {**await self._headers(), "Accept": "text/event-stream"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        # A controller without ids sends all events again.
        skipped = 0 if self._last_id else self._seen
        frames = self._controller.events(self._path, headers)
        try:
            async for frame in frames:
                pause.reset()
                if skipped:
                    skipped -= 1
                    continue
                self._seen += 1
                # In SQR-066, the first of two events for one step has no id of its own.
                if frame.id and frame.id.isascii() and frame.id.isprintable():
                    self._last_id = frame.id
                ended_with = await self._progress.add_frame(frame)
                if ended_with is not None:
                    return ended_with
        finally:
            await frames.aclose()
        return None
