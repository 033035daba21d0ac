"""Configuration of the real hub in tests. What differs between tests comes from the environment."""

import os

from fake_controller import token_of
from jupyterhub.auth import DummyAuthenticator


class SignInWithToken(DummyAuthenticator):
    """Anyone signs in by name, and has a token for the controller."""

    async def authenticate(self, handler, data):
        """The name is the one that was typed."""
        name = await super().authenticate(handler, data)
        return name and {"name": name, "auth_state": {"token": token_of(name)}}


c = get_config()  # noqa: F821
c.JupyterHub.bind_url = os.environ["TEST_PUBLIC_URL"]
c.JupyterHub.hub_bind_url = os.environ["TEST_HUB_URL"]
c.JupyterHub.db_url = os.environ["TEST_DATABASE"]
c.JupyterHub.cookie_secret_file = os.environ["TEST_COOKIE_SECRET"]
# The proxy outlives a hub that is killed.
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = os.environ["TEST_PROXY_API"]
# As in the example: a hub that restarts leaves labs alone.
c.JupyterHub.cleanup_servers = False
# Each spawn shows its progress, however short it is.
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}

c.JupyterHub.spawner_class = "ludgate"
c.RESTSpawner.controller_url = os.environ["TEST_CONTROLLER"]
c.RESTSpawner.hub_token_file = os.environ["TEST_HUB_TOKEN"]
c.RESTSpawner.start_timeout = 60
c.RESTSpawner.http_timeout = 20
c.RESTSpawner.poll_interval = 1

if "TEST_JWKS" in os.environ:
    c.JupyterHub.authenticator_class = "ludgate"
    c.JupyterHub.shutdown_on_logout = True
    c.HeaderAuthenticator.jwks_url = os.environ["TEST_JWKS"]
    c.HeaderAuthenticator.audience = os.environ["TEST_AUDIENCE"]
    c.HeaderAuthenticator.user_token_header = "X-Auth-Request-Token"
else:
    c.JupyterHub.authenticator_class = SignInWithToken
    c.Authenticator.allow_all = True
    c.Authenticator.enable_auth_state = True
