"""A small OpenID provider that signs in one user at once. OpenSSL signs its tokens (RS256)."""

import base64
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.parse

CLIENT, SECRET = "ludgate", "a-secret-for-the-training-only"
USER = {
    "sub": "9f1c2b7e", "name": "Ada Example", "preferred_username": "ada", "email": "ada@example.com",
    "email_verified": True, "groups": ["phusers", "staff", "project-a"],
}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """Serves on a free port of 127.0.0.1 until the process ends."""

    def __init__(self, folder):
        self.key = os.path.join(folder, "provider.pem")
        openssl("genrsa", "-out", self.key, "2048")
        modulus = openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().split("=")[1]
        self.jwk = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "e": "AQAB", "n": encode(bytes.fromhex(modulus))}
        self.nonces = {}
        provider = self

        class Handler(RequestHandler):
            def respond(self):
                provider.respond(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def respond(self, request):
        url = urllib.parse.urlsplit(request.path)
        if url.path == "/.well-known/openid-configuration":
            return request.send_json({
                "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys", "response_types_supported": ["code"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
            })
        if url.path == "/keys":
            return request.send_json({"keys": [self.jwk]})
        if url.path == "/authorize":
            query = dict(urllib.parse.parse_qsl(url.query))
            code = f"code-{len(self.nonces)}"
            self.nonces[code] = query.get("nonce")
            back = urllib.parse.urlencode({"code": code, "state": query["state"], "iss": self.issuer})
            return request.redirect(f"{query['redirect_uri']}?{back}")
        if url.path == "/token":
            form = request.rfile.read(int(request.headers["content-length"])).decode()
            nonce = self.nonces.pop(dict(urllib.parse.parse_qsl(form)).get("code"), None)
            return request.send_json({
                "token_type": "Bearer", "expires_in": 3600, "access_token": self.token("at+jwt"),
                "id_token": self.token("JWT", nonce=nonce),
            })
        return request.send_error(404)

    def token(self, kind, **claims):
        """A signed token, valid for an hour."""
        now = int(time.time())
        payload = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 3600, **USER, **claims}
        parts = [{"alg": "RS256", "kid": "1", "typ": kind}, payload]
        text = ".".join(encode(json.dumps(part).encode()) for part in parts)
        return f"{text}.{encode(openssl('dgst', '-sha256', '-sign', self.key, input=text.encode()))}"


class RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.respond()

    do_POST = do_GET

    def send_json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, location):
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, **more).stdout


def certificate(folder):
    """A key and a self-signed certificate for 127.0.0.1 and localhost: two paths."""
    key, chain = os.path.join(folder, "tls.key"), os.path.join(folder, "tls.crt")
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout", key, "-out", chain,
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:*.localhost",
    )
    return key, chain
