"""A gateway that signs statements of who asks, and serves its keys."""

from __future__ import annotations

import json
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

ASSERTION = "X-Ludgate-Assertion"
AUDIENCE = "team/hub"


class FakeGateway:
    """A gateway's keys and statements."""

    def __init__(self) -> None:
        self.keys = {"first": ec.generate_private_key(ec.SECP256R1())}
        self.fetched = 0
        self.is_broken = False
        # Whether the answer with the keys never ends.
        self.is_endless = False
        self.url = ""
        self._server: HTTPServer | None = None

    async def start(self) -> None:
        """Serves the keys."""
        routes = [("/keys", KeysHandler), (r"/\.ludgate/jwks\.json", KeysHandler)]
        self._server = HTTPServer(web.Application(routes, gateway=self, log_function=lambda _: None))
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/keys"

    async def stop(self) -> None:
        """Closes all connections."""
        self._server.stop()
        await self._server.close_all_connections()

    def jwks(self) -> str:
        """The public keys."""
        keys = []
        for key_id, key in self.keys.items():
            shape = json.loads(ECAlgorithm.to_jwk(key.public_key()))
            keys.append({**shape, "kid": key_id, "alg": "ES256", "use": "sig"})
        return json.dumps({"keys": keys})

    def sign(self, key_id: str = "first", key=None, algorithm: str = "ES256", **claims) -> str:
        """A statement. A claim that is None is left out."""
        given = {"sub": "rachel", "aud": AUDIENCE, "exp": int(time.time()) + 300, **claims}
        given = {name: value for name, value in given.items() if value is not None}
        headers = {"kid": key_id} if key_id else {}
        return jwt.encode(given, key or self.keys[key_id or "first"], algorithm, headers=headers)


class KeysHandler(web.RequestHandler):
    async def get(self) -> None:
        gateway = self.settings["gateway"]
        gateway.fetched += 1
        while gateway.is_endless:
            self.write(" " * 65536)
            await self.flush()
        self.set_status(503 if gateway.is_broken else 200)
        self.finish(gateway.jwks())
