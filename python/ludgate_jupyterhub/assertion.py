"""The gateway's signed statement of who asks."""

from __future__ import annotations

import asyncio
import json
import ssl
import time

import httpx
import jwt

# Seconds after which keys are fetched again, and the shortest time between two fetches.
KEYS_SECONDS = 600
FETCH_PAUSE_SECONDS = 5
FETCH_TIMEOUT_SECONDS = 10
# Most seconds by which the two clocks may differ.
LEEWAY_SECONDS = 10
MAX_KEYS_BYTES = 256 * 1024
MAX_ASSERTION = 32 * 1024


class AssertionRefused(Exception):
    """The statement is not valid here. The text is for the hub's log."""


class KeysUnavailable(Exception):
    """The gateway's keys cannot be fetched."""


class SigningKeys:
    """The gateway's public keys, fetched when they are needed."""

    def __init__(self, url: str, ca_file: str = "") -> None:
        self._url = url
        self._verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def get(self, key_id: str) -> jwt.PyJWK:
        """The key of an id. Raises `AssertionRefused` and `KeysUnavailable`."""
        if self._misses(key_id):
            async with self._fetching:
                if self._misses(key_id):
                    await self._refresh()
        key = self._keys.get(key_id)
        if key is not None:
            return key
        if not self._keys:
            raise KeysUnavailable("the last try failed")
        raise AssertionRefused("it is signed by an unknown key")

    def _misses(self, key_id: str) -> bool:
        now = time.monotonic()
        # Made-up ids must not make the hub ask all the time.
        may_ask = now - self._tried_at >= FETCH_PAUSE_SECONDS
        return may_ask and (key_id not in self._keys or now - self._fetched_at > KEYS_SECONDS)

    async def _refresh(self) -> None:
        self._tried_at = time.monotonic()
        try:
            self._keys = await self._fetch()
            self._fetched_at = time.monotonic()
        except (httpx.HTTPError, asyncio.TimeoutError, jwt.PyJWTError, ValueError, RecursionError) as error:
            # Known keys stay good while new ones cannot be had.
            if not self._keys:
                raise KeysUnavailable(str(error) or type(error).__name__) from error

    async def _fetch(self) -> dict[str, jwt.PyJWK]:
        value = json.loads(await asyncio.wait_for(self._read(), FETCH_TIMEOUT_SECONDS))
        if not isinstance(value, dict):
            raise ValueError("the set of keys is no JSON object")
        return {key.key_id: key for key in jwt.PyJWKSet.from_dict(value).keys if key.key_id}

    async def _read(self) -> bytes:
        # Read as it is sent: a small compressed answer can be a huge text.
        headers = {"Accept-Encoding": "identity"}
        client = httpx.AsyncClient(verify=self._verify, trust_env=False, timeout=FETCH_TIMEOUT_SECONDS)
        read = bytearray()
        async with client, client.stream("GET", self._url, headers=headers) as response:
            response.raise_for_status()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > MAX_KEYS_BYTES:
                    raise ValueError("the set of keys is too long")
        return bytes(read)


async def verified_claims(
    assertion: str, keys: SigningKeys, audience: str, issuer: str, algorithms: list[str]
) -> dict:
    """The claims of a statement that is signed, for us, and has not lapsed.

    An empty issuer is not compared. Raises `AssertionRefused` and `KeysUnavailable`.
    """
    if len(assertion) > MAX_ASSERTION:
        raise AssertionRefused("it is too long")
    try:
        key_id = jwt.get_unverified_header(assertion).get("kid")
        if not isinstance(key_id, str) or not key_id:
            raise AssertionRefused("it names no key")
        return jwt.decode(
            assertion,
            await keys.get(key_id),
            algorithms=algorithms,
            audience=audience,
            issuer=issuer or None,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "aud", *(["iss"] if issuer else [])]},
        )
    except jwt.PyJWTError as error:
        raise AssertionRefused(str(error)) from error
