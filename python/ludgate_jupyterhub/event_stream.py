"""Server-sent events, read in pieces as they arrive."""

from __future__ import annotations

from dataclasses import dataclass

# Longest line, and most bytes of data of one event. The controller sends messages of a few KiB at most.
MAX_BYTES = 256 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """A line or an event is longer than `MAX_BYTES`."""


@dataclass(frozen=True)
class Frame:
    """One event of a stream."""

    kind: str
    data: str
    # Id with which a listener goes on after this event. None if the stream has had no id so far.
    id: str | None = None


class EventStreamParser:
    """Takes bytes of a stream and gives its events."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_carriage_return = False
        self._at_start = True
        self._kind = ""
        self._data: list[str] = []
        self._data_bytes = 0
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The events that end in this chunk. Raises `EventTooLong`."""
        frames = []
        if not chunk:
            return frames
        if self._after_carriage_return:
            # The line break CR LF came in two chunks.
            chunk = chunk[1:] if chunk.startswith(b"\n") else chunk
            self._after_carriage_return = False
        data = self._rest + chunk
        self._after_carriage_return = data.endswith(b"\r")
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if self._at_start and line.startswith(_BYTE_ORDER_MARK):
                line = line[len(_BYTE_ORDER_MARK) :]
            self._at_start = False
            frame = self._line(line)
            if frame is not None:
                frames.append(frame)
        if len(self._rest) > MAX_BYTES:
            raise EventTooLong("A line of the event stream is too long")
        return frames

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        text = (value[1:] if value.startswith(b" ") else value).decode("utf-8", "replace")
        if name == b"event":
            self._kind = text
        elif name == b"data":
            self._data.append(text)
            self._data_bytes += len(line)
            if self._data_bytes > MAX_BYTES:
                raise EventTooLong("An event of the event stream is too long")
        elif name == b"id" and "\0" not in text:
            self._id = text
        # Comments (an empty name) and unknown fields are left out.
        return None

    def _dispatch(self) -> Frame | None:
        kind, data = self._kind, self._data
        self._kind, self._data, self._data_bytes = "", [], 0
        return Frame(kind or "message", "\n".join(data), self._id) if data else None
