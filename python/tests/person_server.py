"""A person's server: one page, and a WebSocket that sends everything back."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

from tornado import web, websocket


class Page(web.RequestHandler):
    """Every page."""

    def get(self) -> None:
        self.finish(f"The server of {os.environ['JUPYTERHUB_USER']} at {self.request.path}")


class Channels(websocket.WebSocketHandler):
    """The WebSocket of a kernel."""

    def on_message(self, message) -> None:
        self.write_message(message)


async def main() -> None:
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    application = web.Application([(rf"{url.path}api/kernels/[^/]+/channels", Channels), (".*", Page)])
    application.listen(url.port, url.hostname)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
