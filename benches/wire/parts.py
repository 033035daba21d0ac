"""Shared parts of the measurements: gateway processes, an app, and clients that count failures.

Uses only Python's standard library and loopback addresses.
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
    """Consecutive gateway processes on one port. They inherit one listening socket (socket
    activation, LISTEN_FDS), or each opens its own (`takeover`)."""

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

        def pass_socket():
            # Socket activation passes file descriptors from 3 on.
            if self.socket:
                os.dup2(self.socket.fileno(), 3, inheritable=True)

        environment = "LISTEN_PID=$$ LISTEN_FDS=1 " if self.socket else ""
        shell = environment + 'exec "$0" gateway --config "$1"'
        process = subprocess.Popen(
            ["sh", "-c", shell, self.program, self.config],
            preexec_fn=pass_socket, close_fds=False, stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=1).status == 200:
                    self.admin = admin
                    return process
            except OSError:
                time.sleep(0.01)
        raise SystemExit("the gateway did not become ready")

    def start_first(self):
        self.running = self.start()

    def replace(self):
        """Starts the next process and sends SIGTERM to the old one. Returns the old one."""
        old, self.running = self.running, self.start()
        old.send_signal(signal.SIGTERM)
        return old

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5).read().decode()
        return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)), None)

    def resident(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.running.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(60)


async def head(reader):
    """Reads the head of a message: first line, and header fields by lower-case name."""
    block = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in block[1:] if ": " in line)
    return block[0], {name.lower(): value for name, value in fields.items()}


async def app(reader, writer):
    """An app that answers every request with 200, and echoes on WebSockets."""
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
    """Requests at a steady rate over keep-alive connections, without retries. A request without a
    complete response counts as failed."""

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


class WebSocket:
    """A WebSocket client that sends a frame every second, and reconnects after a close."""

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
            sender = asyncio.create_task(self.send_frames(writer))
            try:
                await self.receive_frames(reader)
            finally:
                sender.cancel()
                writer.close()

    async def send_frames(self, writer):
        while True:
            writer.write(b"\x82\x84\0\0\0\0ping")
            await writer.drain()
            await asyncio.sleep(1)

    async def receive_frames(self, reader):
        while not self.stopping:
            try:
                first, length = await reader.readexactly(2)
                # Echoed frames still have their mask. The gateway's own frames have none.
                payload = await reader.readexactly((length & 0x7F) + (4 if length & 0x80 else 0))
            except (asyncio.IncompleteReadError, ConnectionError):
                self.broken += 1
                return
            if first == 0x88:
                self.ended.append((time.monotonic(), struct.unpack(">H", payload[:2])[0]))
                return
            self.echoes += 1
