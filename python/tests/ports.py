"""Ports of loopback for servers of tests."""

from __future__ import annotations

import secrets
import socket

_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens, below those of outgoing connections: nothing else takes it meanwhile."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
