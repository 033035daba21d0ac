"""The app behind the gateway: small and large answers, uploads, events, and WebSockets that return each frame."""

import asyncio
import base64
import hashlib
import re
import socket
import sys

BLOCK = b"x" * 65536
FIELDS = (
    "Server: train\r\nDate: Mon, 02 Nov 2026 10:00:00 GMT\r\nCache-Control: no-cache\r\nContent-Type: text/html; charset=utf-8\r\n"
    'ETag: "33a64df5"\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n'
)


async def read_body(reader, fields):
    if "chunked" in fields.get("transfer-encoding", ""):
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
        return
    left = int(fields.get("content-length", 0))
    while left:
        left -= len(await reader.readexactly(min(left, 65536)))


async def websocket(reader, writer, fields):
    accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def answer(writer, method, path):
    """The answer that the path names: /bytes/N, /chunks/N, /status/N, or a short page."""
    kind, _, number = path.strip("/").rpartition("/")
    kind, size = kind.rpartition("/")[2], int(number) if number.isdigit() else 24
    if kind == "status":
        length = "" if size == 304 else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {size} Status\r\n{FIELDS}{length}\r\n".encode())
    elif kind == "chunks":
        writer.write(f"HTTP/1.1 200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(size):
            writer.write(b"400\r\n" + BLOCK[:1024] + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    else:
        cookie = "Set-Cookie: theme=dark; Path=/; HttpOnly\r\n" if kind == "cookie" else ""
        writer.write(f"HTTP/1.1 200 OK\r\n{FIELDS}{cookie}Content-Length: {size}\r\n\r\n".encode())
        while size and method != "HEAD":
            part = BLOCK[:size]
            size -= len(part)
            writer.write(part)
            await writer.drain()


async def serve(reader, writer):
    try:
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ")
            fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
            if fields.get("upgrade") == "websocket":
                return await websocket(reader, writer, fields)
            await read_body(reader, fields)
            await answer(writer, method, re.sub(r"\?.*", "", target))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    # The listening socket is inherited.
    server = await asyncio.start_server(serve, sock=socket.socket(fileno=int(sys.argv[1])))
    await server.serve_forever()


asyncio.run(main())
