"""What goes wrong, with a text that the hub's pages show."""

from __future__ import annotations

import json

from tornado import web

# Longest text of an answer that is shown, in characters.
MAX_TEXT = 1000


class LabError(web.HTTPError):
    """A request that the controller refused, or a lab that does not start.

    The hub answers with `status_code`, and shows the message on its pages and in the progress of a start.
    """

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(status_code, message)
        # JupyterHub shows the attribute of this name instead of a text of its own.
        self.jupyterhub_message = message

    def __str__(self) -> str:
        return f"{self.status_code}: {self.jupyterhub_message}"


class ControllerUnreachable(LabError):
    """No usable answer of the controller until the deadline: no connection, or one of its outages."""

    def __init__(self, message: str) -> None:
        super().__init__(503, message)


def error_text(body: bytes) -> str:
    """The text in the body of an error: each `msg` of `detail`, or the body itself."""
    text = body.decode("utf-8", "replace").strip()
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, TypeError, KeyError):
        return text[:MAX_TEXT]
    if isinstance(detail, str):
        return detail[:MAX_TEXT]
    if not isinstance(detail, list):
        return text[:MAX_TEXT]
    messages = [entry["msg"] for entry in detail if isinstance(entry, dict) and isinstance(entry.get("msg"), str)]
    return "; ".join(messages)[:MAX_TEXT] or text[:MAX_TEXT]
