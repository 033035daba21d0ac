"""Events as they arrive, and as they are shown."""

from __future__ import annotations

import pytest

from ludgate_jupyterhub import event_stream
from ludgate_jupyterhub.event_stream import EventStreamParser, EventTooLong, Frame
from ludgate_jupyterhub.progress import MAX_EVENTS, StartProgress, read_data

STREAM = (
    "\ufeff: ping\r\n\r\nid: 7-0\r\nevent: info\r\ndata: eins\r\ndata: zwölf\r\n\r\n"
    "data:two\nretry: 3\nunknown\n\nid\revent: failed\rdata\r\revent: nothing\n\n"
).encode()
FRAMES = [Frame("info", "eins\nzwölf", "7-0"), Frame("message", "two", "7-0"), Frame("failed", "", "")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_of_any_size_give_the_same_events(size):
    parser = EventStreamParser()
    pieces = [STREAM[place : place + size] for place in range(0, len(STREAM), size)]
    assert [frame for piece in [b"", *pieces, b""] for frame in parser.feed(piece)] == FRAMES


def test_an_event_that_has_not_ended_is_none():
    assert EventStreamParser().feed(b"event: complete\r\ndata: {}\r\n") == []


def test_endless_lines_and_events_are_refused(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_BYTES", 100)
    with pytest.raises(EventTooLong):
        EventStreamParser().feed(b"data: " + b"x" * 100)
    parser = EventStreamParser()
    with pytest.raises(EventTooLong):
        for _ in range(20):
            parser.feed(b"data: 123456\n")


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ('{"message": "a", "progress": 45}', ("a", 45)),
        ('{"message": "a", "progress": 0}', ("a", 0)),
        ('{"message": "a", "progress": null}', ("a", None)),
        ('{"message": "a"}', ("a", None)),
        ('{"message": "a", "progress": 101}', None),
        ('{"message": "a", "progress": -1}', None),
        ('{"message": "a", "progress": true}', None),
        ('{"message": "a", "progress": 1.5}', None),
        ('{"message": "a", "time": 3}', None),
        ('{"message": 3}', None),
        ('{"progress": 3}', None),
        ('["message"]', None),
        ("{broken", None),
        ("[" * 100000, None),
        ("plain text", None),
        ("", None),
    ],
)
def test_data_that_is_not_understood_is_shown_as_it_is(data, read):
    assert read_data(data) == (read or (data, None))


async def shown(frames) -> tuple[list, str | None]:
    progress, ended_with = StartProgress(), None
    for frame in frames:
        ended_with = await progress.add_frame(frame) or ended_with
    await progress.end()
    return [(event["progress"], event["message"]) async for event in progress.listen()], ended_with


async def test_a_start_that_succeeds_is_shown():
    events = await shown(
        [
            Frame("info", '{"message": "Starting", "progress": 2}'),
            Frame("ping", "anything"),
            Frame("info", '{"message": "Pulling", "progress": 45}'),
            Frame("info", '{"message": "Pulled"}'),
            Frame("complete", '{"message": "Runs"}'),
        ]
    )
    assert events == (
        [(2, "[info] Starting"), (45, "[info] Pulling"), (45, "[info] Pulled"), (75, "[complete] Runs")],
        "complete",
    )


async def test_a_start_that_fails_is_shown_with_all_that_was_said():
    events = await shown(
        [
            Frame("progress", "nothing"),
            Frame("progress", "30"),
            Frame("info", "plain"),
            Frame("weather", '{"message": "Rain"}'),
            Frame("error", '{"message": "No Secret", "kind": "Secret"}'),
            Frame("failed", "Lab spawn failed"),
        ]
    )
    assert events == (
        [
            (30, "[info] plain"),
            (30, "[unknown] Rain"),
            (30, '[error] {"message": "No Secret", "kind": "Secret"}'),
            (30, "[failed] Lab spawn failed"),
        ],
        "failed",
    )


async def test_a_flood_of_events_is_cut_but_its_end_is_shown():
    frames = [Frame("info", "x" * 10000)] * (MAX_EVENTS + 50)
    events, _ = await shown([*frames, Frame("failed", "too much")])
    assert len(events) == MAX_EVENTS + 1
    assert events[-1] == (0, "[failed] too much")
    assert len(events[0][1]) < 5000
