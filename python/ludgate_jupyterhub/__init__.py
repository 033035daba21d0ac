"""JupyterHub's side of the lab controller: a spawner and an authenticator."""

from .authenticator import HeaderAuthenticator
from .errors import LabError
from .spawner import RESTSpawner

__all__ = ["HeaderAuthenticator", "LabError", "RESTSpawner"]
