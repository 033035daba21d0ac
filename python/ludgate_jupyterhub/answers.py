"""What answers of the lab controller mean for a spawner."""

from __future__ import annotations

from .controller import Answer
from .errors import LabError, error_text


class StartFailed(LabError):
    """The controller said that the lab does not start."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


def checked_header(text: str) -> str:
    """The text, if it can be in a header. Errors of the HTTP client would show it."""
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable() or " " in text:
        raise LabError(500, "A token or name for the lab controller is empty or has characters that it must not have")
    return text


def raise_refusal(answer: Answer, action: str) -> None:
    """Raises `LabError` with the controller's own text, if it refused. `action` is such as `start the lab`."""
    if answer.is_success:
        return
    text = error_text(answer.body) or f"status {answer.status}"
    if 400 <= answer.status < 500:
        raise LabError(answer.status, f"The lab controller refuses to {action}: {text}")
    raise LabError(502, f"The lab controller fails to {action}: {text}")


def url_if_running(answer: Answer) -> str | None:
    """The URL of a lab that runs, None if it starts. Raises `LabError` for one that does neither."""
    if answer.status == 404:
        raise StartFailed("The lab was removed while it started")
    raise_refusal(answer, "read the status of the lab")
    state = answer.json_object()
    status, url = state.get("status"), state.get("internal_url")
    if status == "pending":
        return None
    if status != "running":
        raise StartFailed(f"The lab does not run: its status is {status}")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise LabError(502, "The lab controller does not say where the lab is")
    return url
