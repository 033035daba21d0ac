"""What the measurements share: a gateway on a socket that outlives it, an app, and clients that count what fails.

Python's own library only; everything is on loopback, and nothing is ended that was not started here.
"""

import asyncio
import base64
import hashlib
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateways:
    """One process after the other, on one listening socket that is handed over (LISTEN_FDS), or each on its own and all on
    one port (`takeover`)."""

    def __init__(self, program, app_port, more="", takeover=False):
        self.program, self.more, self.app_port, self.takeover = program, more, app_port, takeover
        self.socket = None
        self.port = free_port()
        if not takeover:
            self.socket = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.folder = tempfile.TemporaryDirectory()
        self.running = None
        self.admin = None
        self.config = os.path.join(self.folder.name, "ludgate.toml")

    def text(self, admin, apps=""):
        return (
            f'[listen]\naddress = "127.0.0.1:{self.port}"\ntakeover = {str(self.takeover).lower()}\n[admin]\naddress = "127.0.0.1:{admin}"\n'
            f'[site]\nurl = "http://127.0.0.1:{self.port}"\n[log]\nrequests = false\nlevel = "error"\n'
            f'[[apps]]\nid = "app"\naccess = "public"\nupstream = "http://127.0.0.1:{self.app_port}"\n{apps}{self.more}'
        )

    def start(self):
        admin = free_port()
        with open(self.config, "w") as file:
            file.write(self.text(admin))

        def descriptor():
            # The first that is handed over is 3.
            if self.socket:
                os.dup2(self.socket.fileno(), 3, inheritable=True)

        handed_over = "LISTEN_PID=$$ LISTEN_FDS=1 " if self.socket else ""
        shell = handed_over + 'exec "$0" gateway --config "$1"'
        process = subprocess.Popen(
            ["sh", "-c", shell, self.program, self.config],
            preexec_fn=descriptor, close_fds=False, stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=1).status == 200:
                    self.admin = admin
                    return process
            except OSError:
                time.sleep(0.01)
        raise SystemExit("the gateway does not become ready")

    def first(self):
        self.running = self.start()

    def replace(self):
        """Starts the next, and tells the one before to stop; gives that back."""
        old, self.running = self.running, self.start()
        old.send_signal(signal.SIGTERM)
        return old

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5).read().decode()
        return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)), None)

    def resident(self):
        """Bytes."""
        with open(f"/proc/{self.running.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(60)


async def head(reader):
    """The head of a message: first line, and header fields in lower case."""
    block = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in block[1:] if ": " in line)
    return block[0], {name.lower(): value for name, value in fields.items()}


async def app(reader, writer):
    """Answers everything, and gives back the bytes of a WebSocket."""
    try:
        while True:
            line, fields = await head(reader)
            if fields.get("upgrade") == "websocket":
                key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
                writer.write(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
                )
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


class Load:
    """Requests at a steady rate over kept connections. One that gets no whole answer has failed: nothing is tried again."""

    def __init__(self, port, rate, clients):
        self.port, self.rate, self.clients = port, rate, clients
        self.done = self.failed = 0
        self.worst = 0.0
        self.stopping = False
        self.errors = {}

    async def client(self, number):
        request = f"GET /apps/app/x HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        streams, each = None, self.clients / self.rate
        due = time.monotonic() + each * number / self.clients
        while not self.stopping:
            await asyncio.sleep(max(0, due - time.monotonic()))
            begun, due = time.monotonic(), due + each
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", self.port)
                reader, writer = streams
                writer.write(request)
                line, fields = await asyncio.wait_for(head(reader), 20)
                body = await reader.readexactly(int(fields["content-length"]))
                assert " 200 " in line and body == b"ok", line
                self.done += 1
                if fields.get("connection") == "close":
                    writer.close()
                    streams = None
            except Exception as error:
                self.failed += 1
                self.errors[repr(error)] = self.errors.get(repr(error), 0) + 1
                streams = None
            self.worst = max(self.worst, time.monotonic() - begun)

    async def run(self):
        await asyncio.gather(*(self.client(number) for number in range(self.clients)))


class Socket:
    """A WebSocket that says something every second, and opens another when it is told to go."""

    def __init__(self, port):
        self.port, self.ended, self.broken, self.echoes, self.stopping = port, [], 0, 0, False

    async def run(self):
        request = (
            f"GET /apps/app/ws HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
        while not self.stopping:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(request)
            line, _ = await head(reader)
            assert " 101 " in line, line
            speak = asyncio.create_task(self.speak(writer))
            try:
                await self.listen(reader)
            finally:
                speak.cancel()
                writer.close()

    async def speak(self, writer):
        while True:
            writer.write(b"\x82\x84\0\0\0\0ping")
            await writer.drain()
            await asyncio.sleep(1)

    async def listen(self, reader):
        while not self.stopping:
            try:
                first, length = await reader.readexactly(2)
                # An echo comes back as it was sent, with its mask; what the gateway says has none.
                payload = await reader.readexactly((length & 0x7F) + (4 if length & 0x80 else 0))
            except (asyncio.IncompleteReadError, ConnectionError):
                self.broken += 1
                return
            if first == 0x88:
                self.ended.append((time.monotonic(), struct.unpack(">H", payload[:2])[0]))
                return
            self.echoes += 1
