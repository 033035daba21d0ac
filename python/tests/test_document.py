"""The example in Python for authors of apps."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import jwt
import pytest
from fake_gateway import FakeGateway

DOCUMENT = Path(__file__).parents[2] / "docs" / "apps.md"
APP = "mlflow"


@pytest.fixture
async def gateway():
    gateway = FakeGateway()
    await gateway.start()
    yield gateway
    await gateway.stop()


def example(site: str):
    """The function of the document, for a gateway at this address."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    exec(code.replace("https://hub.example.com", site), names)
    return names["verified"]


async def test_the_example_verifies_what_the_gateway_signs(gateway):
    site = gateway.url.removesuffix("/keys")
    verified = example(site)
    # It waits for the keys, which this thread serves.
    claims = await asyncio.to_thread(verified, gateway.sign(aud=APP, iss=site))
    assert claims["sub"] == "rachel"
    for wrong in (
        {"aud": "other"},
        {"iss": "https://other.example.com"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"aud": None},
    ):
        with pytest.raises(jwt.PyJWTError):
            await asyncio.to_thread(verified, gateway.sign(**{"aud": APP, "iss": site, **wrong}))
