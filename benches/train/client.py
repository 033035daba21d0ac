"""Clients of the training: a user who signs in, requests on a kept connection, WebSockets, and h2load."""

import http.client
import os
import ssl
import subprocess
import urllib.parse

# What a browser sends with a page's request.
BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language": "en-US,en;q=0.5",
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Site": "same-origin",
    "Priority": "u=0, i",
}
OWN_COOKIES = "_ga=GA1.1.1234567890.1700000000; theme=dark; csrftoken=Yw2X0cFq1kQb7RkG; sidebar=open"


class Client:
    """One kept connection."""

    def __init__(self, url, headers=()):
        parts = urllib.parse.urlsplit(url)
        # The certificate is one of the training's own.
        tls = {"context": ssl._create_unverified_context()} if parts.scheme == "https" else {}
        kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self.connection = kind(parts.hostname, parts.port, timeout=60, **tls)
        self.headers = dict(headers)

    def send(self, method, path, expected, body=None, **more):
        """Sends a request and reads the answer, which must have this status."""
        headers = {**self.headers, **{name.replace("_", "-"): value for name, value in more.items()}}
        self.connection.request(method, path, body, headers, encode_chunked=not (body is None or isinstance(body, bytes)))
        answer = self.connection.getresponse()
        answer.read()
        if answer.status != expected:
            raise SystemExit(f"{method} {path}: {answer.status} instead of {expected}")
        return answer

    def close(self):
        self.connection.close()


def sign_in(origin, path):
    """Opens the app as a browser does, through the provider. Returns the site's cookies."""
    jars, url = {}, origin + path
    for _ in range(12):
        parts = urllib.parse.urlsplit(url)
        jar = jars.setdefault(parts.netloc, {})
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        client = Client(url, {"Accept": "text/html", "Cookie": cookies})
        client.connection.request("GET", f"{parts.path}?{parts.query}".rstrip("?"), headers=client.headers)
        answer = client.connection.getresponse()
        answer.read()
        client.close()
        for line in answer.headers.get_all("set-cookie") or []:
            name, value = line.split(";")[0].split("=", 1)
            jar[name] = value
        location = answer.headers.get("location")
        if not location:
            if answer.status != 200:
                raise SystemExit(f"the sign-in ended with {answer.status} at {url}")
            return "; ".join(f"{name}={value}" for name, value in jars[urllib.parse.urlsplit(origin).netloc].items() if value)
        url = urllib.parse.urljoin(url, location)
    raise SystemExit("the sign-in redirects in circles")


def h2load(url, requests, headers, *options):
    """Many requests of one kind on 16 connections; each must succeed."""
    command = ["h2load", "-n", str(requests), "-c", "16", *options]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    output = subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout
    if f" {requests} succeeded" not in output or f"status codes: {requests} 2xx" not in output:
        raise SystemExit(f"not every request succeeded:\n{output}")


def websocket(url, path, headers, frames):
    """Sends text frames of several sizes, and reads each back."""
    client = Client(url)
    connection = client.connection
    connection.connect()
    handshake = {
        **headers, "Host": f"{connection.host}:{connection.port}", "Origin": url, "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in handshake.items()) + "\r\n"
    connection.sock.sendall(head.encode())
    stream = connection.sock.makefile("rb")
    status = stream.readline()
    if b" 101 " not in status:
        raise SystemExit(f"no WebSocket: {status}")
    while stream.readline() != b"\r\n":
        pass
    for number in range(frames):
        frame = text_frame(os.urandom(4), b"x" * (20, 90, 700, 9000)[number % 4])
        connection.sock.sendall(frame)
        # The app returns the bytes as they were.
        if stream.read(len(frame)) != frame:
            raise SystemExit("a WebSocket frame came back changed")
    client.close()


def text_frame(mask, payload):
    """A masked text frame (RFC 6455 section 5.2)."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
