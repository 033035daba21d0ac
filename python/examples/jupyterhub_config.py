"""JupyterHub behind Ludgate's gateway, with labs from its lab controller. Names in capitals are to be replaced."""

c = get_config()  # noqa: F821

# The hub's path behind the gateway, and where labs in their pods reach the hub.
c.JupyterHub.base_url = "/apps/nb"
c.JupyterHub.hub_bind_url = "http://0.0.0.0:8081"
c.JupyterHub.hub_connect_url = "http://HUB.NAMESPACE.svc:8081"
# A hub that restarts leaves labs alone, and finds them again.
c.JupyterHub.cleanup_servers = False
# Signing out stops the person's lab.
c.JupyterHub.shutdown_on_logout = True
# The controller limits its own calls to the cluster.
c.JupyterHub.concurrent_spawn_limit = 0

# People sign in at the gateway, which signs their identity (X-Ludgate-Assertion) for apps with `assertion = true`. The
# audience is the hub's id there. Their tokens are kept encrypted: set JUPYTERHUB_CRYPT_KEY to 32 random bytes in hex.
c.JupyterHub.authenticator_class = "ludgate"
c.HeaderAuthenticator.jwks_url = "https://APPS.EXAMPLE.ORG/.ludgate/jwks.json"
c.HeaderAuthenticator.audience = "nb"

# Labs are started for the person whom the hub names, and stopped with the hub's token. The controller believes the
# addresses in its labs.trusted_peers.
c.JupyterHub.spawner_class = "ludgate"
c.RESTSpawner.controller_url = "http://LUDGATE-LABS.NAMESPACE.svc:8083/nublado"
c.RESTSpawner.hub_token_file = "/etc/ludgate/hub-token"
c.RESTSpawner.send_user_headers = True
# Not shorter than the controller's own time for a start.
c.RESTSpawner.start_timeout = 600
# From the pod's start until the lab answers.
c.RESTSpawner.http_timeout = 90
c.RESTSpawner.default_url = "/lab"
