"""The example for operators."""

from __future__ import annotations

from pathlib import Path

from jupyterhub.app import JupyterHub
from traitlets.config import PyFileConfigLoader

from ludgate_jupyterhub import HeaderAuthenticator, RESTSpawner

EXAMPLE = Path(__file__).parent.parent / "examples" / "jupyterhub_config.py"


def test_each_setting_of_the_example_exists_and_takes_its_value():
    config = PyFileConfigLoader(str(EXAMPLE)).load_config()
    classes = {kind.__name__: kind for kind in (HeaderAuthenticator, JupyterHub, RESTSpawner)}
    assert config.keys() == classes.keys()
    for name, settings in config.items():
        assert settings.keys() <= set(classes[name].class_trait_names(config=True)), name
    assert RESTSpawner(config=config).start_timeout == 600
    assert HeaderAuthenticator(config=config).audience == "nb"
    hub = JupyterHub(config=config)
    assert (hub.spawner_class, hub.authenticator_class) == (RESTSpawner, HeaderAuthenticator)
