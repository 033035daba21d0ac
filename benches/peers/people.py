"""Users who sign in with the OpenID provider of the tests (Node.js, `make install`)."""

import base64
import hashlib
import http.client
import json
import os
import ssl
import subprocess
import urllib.parse

import machine

SECRET = "a-secret-for-benches-only"


def provider(*redirects):
    """Starts the provider on the load's core. Returns its issuer."""
    environment = {**os.environ, "CLIENT_SECRET": SECRET, "REDIRECT_URI": ",".join(redirects), "ACCESS_TOKEN_TTL": "86400"}
    process = machine.start(
        machine.LOAD_CORE, "node", "op.mjs", cwd="tests/real/oidc-provider", env=environment, stdout=subprocess.PIPE, text=True
    )
    return json.loads(process.stdout.readline())["issuer"]


def send(host, method, path, headers, body=None, scheme="http"):
    if scheme == "https":
        # The measurement uses a self-signed certificate.
        connection = http.client.HTTPSConnection(*host, timeout=60, context=ssl._create_unverified_context())
    else:
        connection = http.client.HTTPConnection(*host, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer, answer.read()


class Person:
    """A browser that signs a user in. It has a cookie jar for each origin."""

    def __init__(self):
        self.jars = {}

    def get(self, url):
        parts = urllib.parse.urlsplit(url)
        jar = self.jars.setdefault(parts.netloc, {})
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        path = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
        answer, body = send((parts.hostname, parts.port), "GET", path, {"Accept": "text/html", "Cookie": cookies}, None, parts.scheme)
        for line in answer.headers.get_all("set-cookie") or []:
            name, value = line.split(";")[0].split("=", 1)
            jar[name] = value
        return answer, body

    def follow(self, url):
        for _ in range(15):
            answer, _ = self.get(url)
            location = answer.headers.get("location")
            if not location:
                return url, answer
            url = urllib.parse.urljoin(url, location)
            if "/interaction/" in url and "login=" not in url:
                url += "?login=alice"
        raise SystemExit("the sign-in has too many redirects")

    def cookies(self, number):
        """The Cookie header for the origin with this port."""
        jar = self.jars[f"127.0.0.1:{number}"]
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items() if value)}


def signed_in(number, path, scheme="http"):
    """Signs in, opens this path, and returns the request headers."""
    person = Person()
    url, answer = person.follow(f"{scheme}://127.0.0.1:{number}{path}")
    assert answer.status == 200, (url, answer.status)
    return person.cookies(number)


def token(issuer, redirect):
    """Gets an access token by an authorization code flow. Returns an API client's headers."""
    verifier = "a-verifier-of-at-least-forty-three-characters-0123456789"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = urllib.parse.urlencode({
        "client_id": "ludgate", "redirect_uri": redirect, "response_type": "code", "scope": "openid profile email groups",
        "code_challenge": challenge, "code_challenge_method": "S256", "state": "x", "nonce": "y",
    })
    person, url = Person(), f"{issuer}/auth?{query}"
    for _ in range(10):
        answer, _ = person.get(url)
        url = urllib.parse.urljoin(url, answer.headers["location"])
        if url.startswith(redirect):
            break
        if "/interaction/" in url and "login=" not in url:
            url += "?login=alice"
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["code"][0]
    form = urllib.parse.urlencode({"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier})
    basic = base64.b64encode(f"ludgate:{SECRET}".encode()).decode()
    parts = urllib.parse.urlsplit(issuer)
    headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
    _, body = send((parts.hostname, parts.port), "POST", "/token", headers, form)
    return {"Authorization": f"Bearer {json.loads(body)['access_token']}"}
