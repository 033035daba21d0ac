"""The authenticator: the gateway before the hub says who asks."""

from __future__ import annotations

from dataclasses import dataclass

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import BaseHandler, LogoutHandler
from jupyterhub.utils import url_path_join
from tornado import web
from traitlets import Bool, List, Unicode, default

from .assertion import AssertionRefused, KeysUnavailable, SigningKeys, verified_claims


@dataclass(frozen=True)
class _Identity:
    """Who asks."""

    username: str
    token: str
    groups: list[str]


class GatewayLoginHandler(BaseHandler):
    """Signs in the person that the gateway names."""

    async def get(self) -> None:
        """Goes on to where the person wanted to go."""
        user = await self.login_user()
        if user is None:
            raise web.HTTPError(403, "You may not use this hub")
        self.redirect(self.get_next_url(user))


class GatewayLogoutHandler(LogoutHandler):
    """Signs out here, and then of the gateway."""

    async def render_logout_page(self) -> None:
        """A page of the hub would sign in again at once."""
        self.redirect(self.authenticator.sign_out_url, permanent=False)


class HeaderAuthenticator(Authenticator):
    """Signs in by headers of the gateway before the hub.

    The person is named by a statement that the gateway signs for this hub (`assertion_header`). What a client sends by
    itself is not signed, and so refused.
    """

    assertion_header = Unicode("X-Ludgate-Assertion", help="Header with the gateway's signed statement (JWT).").tag(
        config=True
    )
    jwks_url = Unicode(
        help="URL of the gateway's public keys, for example `https://apps.example.org/.ludgate/jwks.json`."
    ).tag(config=True)
    audience = Unicode(help="The hub's name in the gateway: the audience for which a statement must be.").tag(
        config=True
    )
    issuer = Unicode("", help="Issuer that statements must have. Empty: it is not compared.").tag(config=True)
    algorithms = List(Unicode(), ["ES256"], help="Algorithms by which statements may be signed.").tag(config=True)
    username_claim = Unicode("sub", help="Claim with the name of the person.").tag(config=True)
    groups_claim = Unicode("groups", help="Claim with the groups, for `Authenticator.manage_groups`.").tag(config=True)
    ca_file = Unicode(
        "", help="File with the certificates (PEM) of authorities for `jwks_url`. Empty: the usual ones."
    ).tag(config=True)
    user_token_header = Unicode(
        "",
        help="""Header with the token with which the hub starts labs for the person.

        Empty: the statement itself, which the lab controller must then accept.
        """,
    ).tag(config=True)
    trust_plain_headers = Bool(
        False,
        help="""Believe `X-Auth-Request-User` and `X-Auth-Request-Token` without a signature.

        Only for a hub that no other program than the proxy before it can reach: each client that reaches it can be
        each person. Signed statements are then not read.
        """,
    ).tag(config=True)
    sign_out_url = Unicode("/oauth2/sign_out", help="Where people go after they signed out of the hub.").tag(
        config=True
    )

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._keys: SigningKeys | None = None

    @default("auto_login")
    def _default_auto_login(self) -> bool:
        return True

    @default("allow_all")
    def _default_allow_all(self) -> bool:
        # The gateway decides who gets here.
        return True

    @default("enable_auth_state")
    def _default_enable_auth_state(self) -> bool:
        return True

    @default("auth_refresh_age")
    def _default_auth_refresh_age(self) -> int:
        # Each request: no refresh is ever young enough. 0 would mean none.
        return -1

    @default("refresh_pre_spawn")
    def _default_refresh_pre_spawn(self) -> bool:
        return True

    def login_url(self, base_url: str) -> str:
        """The handler that signs in by headers."""
        return url_path_join(base_url, "gateway_login")

    def get_handlers(self, app) -> list:
        """Sign-in and sign-out."""
        return [("/gateway_login", GatewayLoginHandler), ("/logout", GatewayLogoutHandler)]

    async def authenticate(self, handler, data=None) -> dict:
        """The person whom the gateway names. Raises 401 if it names none."""
        identity = await self._identity(handler)
        if identity is None:
            raise web.HTTPError(401, "The request has no sign-in of the gateway")
        return self._model(identity)

    async def refresh_user(self, user, handler=None) -> bool | dict:
        """Takes over a new token. Raises 401 if the gateway names another person than the hub's session."""
        # JupyterHub 5 names who asks only after this, JupyterHub 6 before.
        if handler is None or getattr(handler, "_jupyterhub_user", user) is not user:
            # A request of the hub itself, or of an administrator for this person.
            return True
        identity = await self._identity(handler)
        if identity is None:
            # Programs with a token of the hub do not come through the gateway.
            return True
        if self.normalize_username(identity.username) != user.name:
            # The next request signs in anew.
            handler.clear_login_cookie()
            raise web.HTTPError(401, "Another person is signed in now. Please reload the page.")
        state = await user.get_auth_state() or {}
        if state.get("token") == identity.token and not self.manage_groups:
            return True
        return self._model(identity)

    def _model(self, identity: _Identity) -> dict:
        model = {"name": identity.username, "auth_state": {"token": identity.token}}
        if self.manage_groups:
            model["groups"] = identity.groups
        return model

    async def _identity(self, handler) -> _Identity | None:
        """Who asks. None without a header that says so. Raises 401 if it is not valid."""
        if self.trust_plain_headers:
            username, token = _header(handler, "X-Auth-Request-User"), _header(handler, "X-Auth-Request-Token")
            return _Identity(username, token, []) if username and token else None
        assertion = _header(handler, self.assertion_header)
        if not assertion:
            return None
        try:
            claims = await verified_claims(
                assertion, self._signing_keys(), self.audience, self.issuer, self.algorithms
            )
        except AssertionRefused as error:
            self.log.warning("A sign-in of the gateway is refused: %s", error)
            raise web.HTTPError(401, "The sign-in of the gateway is not valid here") from error
        except KeysUnavailable as error:
            self.log.error("The gateway's keys cannot be fetched: %s", error)
            raise web.HTTPError(503, "The sign-in of the gateway cannot be checked now") from error
        username = claims.get(self.username_claim)
        if not isinstance(username, str) or not username:
            raise web.HTTPError(401, "The sign-in of the gateway has no user name")
        groups = claims.get(self.groups_claim)
        groups = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
        token = _header(handler, self.user_token_header) if self.user_token_header else assertion
        return _Identity(username, token or "", groups)

    def _signing_keys(self) -> SigningKeys:
        if not self.jwks_url or not self.audience:
            raise web.HTTPError(500, "HeaderAuthenticator.jwks_url and .audience must be set")
        if self._keys is None:
            self._keys = SigningKeys(self.jwks_url, self.ca_file)
        return self._keys


def _header(handler, name: str) -> str | None:
    """The header's value. Raises 401 if there are several: which one the gateway set is not known."""
    values = handler.request.headers.get_list(name)
    if len(values) > 1:
        raise web.HTTPError(401, f"The request has {name} more than once")
    return values[0].strip() if values else None
