"""The compared proxies and their configurations: one thread, keep-alive connections to the app."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field

import people
from machine import LOAD_CORE, PROXY_CORE, folder, port, start, until_open, write

# `install` puts the programs in this folder that Debian does not have.
PROGRAMS = "target/peers"
MODULES = "/usr/lib/apache2/modules"


@dataclass
class Candidate:
    """One row of the table."""

    process: subprocess.Popen
    port: int
    path: str = "/x"
    headers: dict = field(default_factory=dict)


def found(name):
    """The path of a program; `None` if it is not installed."""
    path = os.path.join(PROGRAMS, name)
    return path if os.access(path, os.X_OK) else shutil.which(name)


def nginx(name, core, server, more="", log=False):
    directory = folder.name
    temporary = "".join(f"{kind}_temp_path {directory}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    access = f"{directory}/{name}-access.log" if log else "off"
    config = write(f"{name}.conf", f"""daemon off; worker_processes 1; pid {directory}/{name}.pid; error_log {directory}/{name}.log;
events {{ worker_connections 25000; }}
http {{ access_log {access}; keepalive_requests 100000000; {temporary} {more} server {{ {server} }} }}""")
    return start(core, "nginx", "-c", config)


def app():
    """The app behind all proxies: nginx with a short, fixed response."""
    number = port()
    nginx("app", LOAD_CORE, f'listen 127.0.0.1:{number} backlog=4096; location / {{ return 200 "ok, as an app says it\\n"; }}')
    until_open(number)
    return number


PROXY = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; proxy_pass http://app;"


def upstream(app_port):
    return f"upstream app {{ server 127.0.0.1:{app_port}; keepalive 64; keepalive_requests 100000000; }}"


def plain(name, app_port, log=False):
    """Starts a proxy that only forwards requests."""
    number = port()
    if name in ("relay", "bare"):
        return Candidate(start(PROXY_CORE, f"target/release/{name}", f"127.0.0.1:{number}", f"127.0.0.1:{app_port}"), number)
    if name == "nginx":
        return Candidate(nginx("proxy", PROXY_CORE, f"listen 127.0.0.1:{number}; location / {{ {PROXY} }}", upstream(app_port), log), number)
    if name == "nginx-auth":
        # The app's server answers the subrequest on the load's core. This CPU time is not counted.
        auth = "location = /ask { internal; proxy_pass_request_body off; proxy_set_header Content-Length ''; %s }" % PROXY
        server = f"listen 127.0.0.1:{number}; {auth} location / {{ auth_request /ask; {PROXY} }}"
        return Candidate(nginx("auth", PROXY_CORE, server, upstream(app_port), log), number)
    if name == "haproxy":
        config = write("haproxy.cfg", f"""global
  nbthread 1
{"  log /dev/null local0" if log else ""}
defaults
  mode http
  timeout connect 3s
  timeout client 60s
  timeout server 60s
  http-reuse always
listen all
  bind 127.0.0.1:{number}
  server app 127.0.0.1:{app_port}
""")
        return Candidate(start(PROXY_CORE, "haproxy", "-f", config), number)
    if name == "envoy":
        return Candidate(start(PROXY_CORE, found("envoy"), "-c", envoy(number, app_port), "--concurrency", "1", "--use-dynamic-base-id"), number)
    if name == "chp":
        command = [found("configurable-http-proxy"), "--ip", "127.0.0.1", "--port", str(number), "--api-port", str(port())]
        return Candidate(start(PROXY_CORE, *command, "--default-target", f"http://127.0.0.1:{app_port}", "--log-level", "error"), number)
    if name == "pingora":
        return Candidate(start(PROXY_CORE, found("pingora-plain"), f"127.0.0.1:{number}", f"127.0.0.1:{app_port}"), number)
    raise SystemExit(f"unknown peer: {name}")


def envoy(number, app_port):
    return write("envoy.yaml", f"""static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {number}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: all
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: app}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: app
    type: STATIC
    load_assignment:
      cluster_name: app
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {app_port}}}}}}}
""")


def apache(app_port, issuer, number):
    """Apache with mod_auth_openidc, and the session of a signed-in user."""
    wanted = ["mpm_event", "authn_core", "authz_core", "authz_user", "proxy", "proxy_http", "auth_openidc"]
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in wanted)
    config = write("apache.conf", f"""{modules}
ServerRoot {folder.name}
PidFile {folder.name}/apache.pid
ErrorLog {folder.name}/apache.log
Listen 127.0.0.1:{number}
ServerName 127.0.0.1
User www-data
Group www-data
KeepAlive On
MaxKeepAliveRequests 0
StartServers 1
ServerLimit 1
ThreadsPerChild 64
MaxRequestWorkers 64
OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration
OIDCClientID ludgate
OIDCClientSecret {people.SECRET}
OIDCRedirectURI http://127.0.0.1:{number}/oauth2/callback
OIDCCryptoPassphrase a-passphrase-for-benches-only
OIDCScope "openid profile email groups"
OIDCSessionInactivityTimeout 1800
OIDCPKCEMethod S256
<Location />
  AuthType openid-connect
  Require valid-user
  ProxyPass http://127.0.0.1:{app_port}/ keepalive=On
</Location>
""")
    os.chmod(folder.name, 0o755)
    process = start(PROXY_CORE, "apache2", "-DFOREGROUND", "-f", config)
    until_open(number)
    return Candidate(process, number, "/x", people.signed_in(number, "/x"))


def ludgate(app_port, issuer, number, log=False, more="", listen="", scheme="http", admin=0, wrapper=(), program=None):
    """Starts Ludgate: `program`, or the one that LUDGATE names. `wrapper` is a command that runs it, for example valgrind."""
    identity = f"""[identity]
issuer = "{issuer}"
client_id = "ludgate"
client_secret = "{people.SECRET}"
"""
    team = f"""[[apps]]
id = "team"
access = "group:phusers"
upstream = "http://127.0.0.1:{app_port}"
"""
    config = write(f"ludgate-{number}.toml", f"""[listen]
address = "127.0.0.1:{number}"
{listen}[admin]
address = "127.0.0.1:{admin}"
[site]
url = "{scheme}://127.0.0.1:{number}"
{identity if issuer else ""}[log]
requests = {str(log).lower()}
level = "error"
[limits]
connections = 25000
connections_per_client = 25000
connections_per_app = 25000
client_share = 100
[[apps]]
id = "open"
access = "public"
upstream = "http://127.0.0.1:{app_port}"
{team if issuer else ""}{more}""")
    program = program or os.environ.get("LUDGATE", "target/release/ludgate")
    return start(PROXY_CORE, *wrapper, program, "gateway", "--config", config)
