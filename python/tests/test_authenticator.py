"""Sign-in by the gateway's statement, which must be signed for this hub."""

from __future__ import annotations

import time
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fake_gateway import ASSERTION as NAME
from fake_gateway import AUDIENCE, FakeGateway
from tornado import web
from tornado.httputil import HTTPHeaders

from ludgate_jupyterhub import HeaderAuthenticator, assertion


@pytest.fixture
async def gateway(monkeypatch):
    monkeypatch.setattr(assertion, "FETCH_PAUSE_SECONDS", 0)
    gateway = FakeGateway()
    await gateway.start()
    yield gateway
    await gateway.stop()


@pytest.fixture
def authenticator(gateway):
    return HeaderAuthenticator(jwks_url=gateway.url, audience=AUDIENCE)


class Handler:
    """A request to the hub."""

    def __init__(self, *headers: tuple[str, str], user=None) -> None:
        self.request = SimpleNamespace(headers=HTTPHeaders())
        for name, value in headers:
            self.request.headers.add(name, value)
        if user is not None:
            self._jupyterhub_user = user
        self.cookie_is_cleared = False

    def clear_login_cookie(self) -> None:
        self.cookie_is_cleared = True


class Person:
    def __init__(self, name: str, token: str = "") -> None:
        self.name, self.token = name, token

    async def get_auth_state(self) -> dict:
        return {"token": self.token}


async def refusal(authenticator, *headers) -> int:
    with pytest.raises(web.HTTPError) as caught:
        await authenticator.authenticate(Handler(*headers))
    return caught.value.status_code


async def test_a_signed_statement_signs_in(gateway, authenticator):
    token = gateway.sign()
    signed_in = await authenticator.get_authenticated_user(Handler((NAME, token)), None)
    assert (signed_in["name"], signed_in["auth_state"]) == ("rachel", {"token": token})
    assert gateway.fetched == 1
    await authenticator.authenticate(Handler((NAME, gateway.sign())))
    assert gateway.fetched == 1


async def test_without_a_statement_nobody_is_signed_in(authenticator):
    assert await refusal(authenticator) == 401
    bare = (("X-Auth-Request-User", "rachel"), ("X-Auth-Request-Token", "t"), ("X-Forwarded-User", "rachel"))
    assert await refusal(authenticator, *bare) == 401


def of_another_key(gateway):
    return gateway.sign(key=ec.generate_private_key(ec.SECP256R1()))


def unsigned(gateway):
    return jwt.encode({"sub": "rachel", "aud": AUDIENCE, "exp": time.time() + 60}, None, "none", {"kid": "first"})


def with_the_public_key_as_secret(gateway):
    return jwt.encode({"sub": "rachel", "aud": AUDIENCE, "exp": time.time() + 60}, "x" * 32, "HS256", {"kid": "first"})


@pytest.mark.parametrize(
    "make",
    [
        of_another_key,
        unsigned,
        with_the_public_key_as_secret,
        lambda gateway: gateway.sign(aud="team/other"),
        lambda gateway: gateway.sign(aud=None),
        lambda gateway: gateway.sign(exp=int(time.time()) - 60),
        lambda gateway: gateway.sign(exp=None),
        lambda gateway: gateway.sign(nbf=int(time.time()) + 600),
        lambda gateway: gateway.sign(sub=None),
        lambda gateway: gateway.sign(sub=""),
        lambda gateway: gateway.sign(key_id=""),
        lambda gateway: gateway.sign(key_id="second", key=gateway.keys["first"]),
        lambda gateway: gateway.sign()[:-4] + "AAAA",
        lambda gateway: "no token",
        lambda gateway: gateway.sign(filler="x" * 40000),
    ],
)
async def test_a_statement_that_is_not_for_this_hub_is_refused(gateway, authenticator, make):
    assert await refusal(authenticator, (NAME, make(gateway))) == 401


async def test_the_issuer_is_compared_if_it_is_set(gateway):
    strict = HeaderAuthenticator(jwks_url=gateway.url, audience=AUDIENCE, issuer="https://gate")
    assert await refusal(strict, (NAME, gateway.sign())) == 401
    assert await refusal(strict, (NAME, gateway.sign(iss="https://other"))) == 401
    assert (await strict.authenticate(Handler((NAME, gateway.sign(iss="https://gate")))))["name"] == "rachel"


async def test_of_two_statements_none_is_believed(gateway, authenticator):
    assert await refusal(authenticator, (NAME, gateway.sign()), (NAME, gateway.sign(sub="tom"))) == 401


async def test_new_keys_are_fetched(gateway, authenticator):
    await authenticator.authenticate(Handler((NAME, gateway.sign())))
    gateway.keys = {"second": ec.generate_private_key(ec.SECP256R1())}
    await authenticator.authenticate(Handler((NAME, gateway.sign("second"))))
    assert gateway.fetched == 2
    # The old key is gone.
    assert await refusal(authenticator, (NAME, gateway.sign("first", key=gateway.keys["second"]))) == 401


async def test_made_up_keys_cost_the_gateway_little(gateway, authenticator, monkeypatch):
    monkeypatch.setattr(assertion, "FETCH_PAUSE_SECONDS", 5)
    await authenticator.authenticate(Handler((NAME, gateway.sign())))
    for number in range(50):
        await refusal(authenticator, (NAME, gateway.sign(f"made-up-{number}", key=gateway.keys["first"])))
    assert gateway.fetched == 1


async def test_known_keys_stay_good_in_an_outage(gateway, authenticator, monkeypatch):
    gateway.is_broken = True
    assert await refusal(authenticator, (NAME, gateway.sign())) == 503
    gateway.is_broken = False
    await authenticator.authenticate(Handler((NAME, gateway.sign())))
    gateway.is_broken = True
    monkeypatch.setattr(assertion, "KEYS_SECONDS", 0)
    await authenticator.authenticate(Handler((NAME, gateway.sign())))
    assert gateway.fetched == 3


async def test_keys_without_an_end_are_not_read_for_ever(gateway):
    keys = assertion.SigningKeys(gateway.url)
    gateway.is_endless = True
    with pytest.raises(assertion.KeysUnavailable, match="too long"):
        await keys.get("first")
    gateway.is_endless = False
    assert (await keys.get("first")).key_id == "first"


async def test_a_new_token_is_taken_over(gateway, authenticator):
    old, new = gateway.sign(jti="1"), gateway.sign(jti="2")
    person = Person("rachel", old)
    assert await authenticator.refresh_user(person, Handler((NAME, old), user=person)) is True
    refreshed = await authenticator.refresh_user(person, Handler((NAME, new), user=person))
    assert refreshed == {"name": "rachel", "auth_state": {"token": new}}


async def test_another_person_is_401_and_signed_out_here(gateway, authenticator):
    person = Person("rachel")
    handler = Handler((NAME, gateway.sign(sub="tom")), user=person)
    with pytest.raises(web.HTTPError) as caught:
        await authenticator.refresh_user(person, handler)
    assert caught.value.status_code == 401
    assert handler.cookie_is_cleared


async def test_a_lapsed_statement_is_401_in_a_session_too(gateway, authenticator):
    person = Person("rachel")
    with pytest.raises(web.HTTPError) as caught:
        await authenticator.refresh_user(person, Handler((NAME, gateway.sign(exp=1)), user=person))
    assert caught.value.status_code == 401


async def test_requests_of_programs_and_administrators_change_nothing(gateway, authenticator):
    person, administrator = Person("rachel"), Person("admin")
    assert await authenticator.refresh_user(person, None) is True
    assert await authenticator.refresh_user(person, Handler(user=person)) is True
    for_rachel = Handler((NAME, gateway.sign(sub="admin")), user=administrator)
    assert await authenticator.refresh_user(person, for_rachel) is True


async def test_claims_and_headers_are_chosen(gateway):
    authenticator = HeaderAuthenticator(
        jwks_url=gateway.url,
        audience=AUDIENCE,
        username_claim="preferred_username",
        user_token_header="X-Auth-Request-Token",
        manage_groups=True,
    )
    signed = gateway.sign(sub="123", preferred_username="Rachel", groups=["a", 3, "b"])
    handler = Handler((NAME, signed), ("X-Auth-Request-Token", "delegated"))
    signed_in = await authenticator.get_authenticated_user(handler, None)
    assert signed_in["name"] == "rachel"
    assert signed_in["auth_state"] == {"token": "delegated"}
    assert signed_in["groups"] == ["a", "b"]
    person = Person("rachel", "delegated")
    assert (await authenticator.refresh_user(person, Handler((NAME, signed), user=person)))["groups"] == ["a", "b"]


async def test_plain_headers_are_believed_only_when_it_is_set():
    authenticator = HeaderAuthenticator(trust_plain_headers=True)
    both = (("X-Auth-Request-User", "rachel"), ("X-Auth-Request-Token", "t"))
    assert (await authenticator.authenticate(Handler(*both)))["auth_state"] == {"token": "t"}
    assert await refusal(authenticator, both[0]) == 401
    assert await refusal(authenticator, both[1]) == 401
    assert await refusal(authenticator, *both, ("X-Auth-Request-User", "tom")) == 401


async def test_what_is_not_configured_is_named():
    with pytest.raises(web.HTTPError, match="jwks_url and .audience must be set"):
        await HeaderAuthenticator().authenticate(Handler((NAME, "a.b.c")))


def test_each_request_and_each_start_are_checked(authenticator):
    assert authenticator.auto_login and authenticator.allow_all and authenticator.enable_auth_state
    assert authenticator.auth_refresh_age == -1
    assert authenticator.refresh_pre_spawn
