"""Configuration of a real hub behind Ludgate: the lines of the document, and those of the tests."""

import os
import re
import sys
from pathlib import Path

from jupyterhub.auth import DummyAuthenticator
from jupyterhub.spawner import SimpleLocalProcessSpawner

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "jupyterhub-proxy.md"

c = get_config()  # noqa: F821
(lines,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
lines = lines.replace("http://127.0.0.1:8001", os.environ["TEST_PROXY_API"])
exec(lines.replace("/etc/jupyterhub/hub-proxy-token", os.environ["TEST_PROXY_TOKEN"]))
# The test does not wait for a minute.
assert c.JupyterHub.last_activity_interval == 60
c.JupyterHub.last_activity_interval = 1

c.JupyterHub.hub_bind_url = os.environ["TEST_HUB_URL"]
c.JupyterHub.db_url = os.environ["TEST_DATABASE"]
c.JupyterHub.cookie_secret_file = os.environ["TEST_COOKIE_SECRET"]
c.JupyterHub.authenticator_class = DummyAuthenticator
c.Authenticator.allow_all = True
# The test itself starts servers.
c.JupyterHub.redirect_to_server = False
c.JupyterHub.spawner_class = SimpleLocalProcessSpawner
c.SimpleLocalProcessSpawner.home_dir_template = os.environ["TEST_HOMES"] + "/{username}"
c.Spawner.cmd = [sys.executable, str(HERE / "person_server.py")]
c.Spawner.poll_interval = 1
