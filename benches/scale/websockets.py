"""Ten thousand WebSockets that say nothing, or as many as the limit of open files leaves: what each takes, and how they end
all at once."""

import asyncio
import re
import resource
import ssl
import sys
import time
import urllib.request

import machine
import pair

# Two files each in the gateway, and it keeps some for itself.
ROOM = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 500
MANY, AT_ONCE = min(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, ROOM), 200
APP = """
import asyncio, base64, hashlib, sys
async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        key = next((line.split(b": ")[1] for line in head.split(b"\\r\\n") if line.lower().startswith(b"sec-websocket-key")), None)
        if key is None:
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
            return writer.close()
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
        while await reader.read(4096): pass
        writer.close()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()
asyncio.run(main())
"""


async def one(row, scheme, context, gate):
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", row.number, ssl=context, limit=1024)
        origin = f"{scheme}://127.0.0.1:{row.number}"
        head = f"GET {row.path} HTTP/1.1\r\nHost: 127.0.0.1:{row.number}\r\nOrigin: {origin}\r\nCookie: {row.headers['Cookie']}\r\n"
        writer.write((head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n").encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer.split(b"\r\n")[0], answer
        return reader, writer


def streams(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as answer:
        return int(re.search(r"ludgate_streams (\d+)", answer.read().decode()).group(1))


async def measure(kind, scheme, context, listen):
    app, admin = machine.port(), machine.port()
    machine.start(machine.LOAD_CORE, sys.executable, "-c", APP, str(app))
    machine.until_open(app)
    row = pair.gate(app, listen=listen, scheme=scheme, admin=admin)
    gate = asyncio.Semaphore(AT_ONCE)
    # What grows once, whoever comes.
    warm = await asyncio.gather(*(one(row, scheme, context, gate) for _ in range(200)))
    before, began = machine.resident(row.process), time.monotonic()
    open_ones = await asyncio.gather(*(one(row, scheme, context, gate) for _ in range(MANY)))
    took = time.monotonic() - began
    cpu = sum(machine.cpu(row.process))
    await asyncio.sleep(10)
    idle = (sum(machine.cpu(row.process)) - cpu) / 10
    each = (machine.resident(row.process) - before) / MANY
    listed, closing = streams(admin), time.monotonic()
    for _, writer in warm + open_ones:
        writer.transport.abort()
    while streams(admin):
        await asyncio.sleep(0.05)
    closed = time.monotonic() - closing
    print(f"| {kind} | {listed} | {each:.1f} KiB | {took:.1f} s | {idle * 100:.1f} % of a core | {closed:.2f} s |", flush=True)


async def main():
    key, chain = pair.certificate()
    context = ssl.create_default_context(cafile=chain)
    print("| | open | resident each | opened in | while they say nothing | all gone after |\n|---|---|---|---|---|---|")
    await measure("plain", "http", None, "")
    await measure("TLS", "https", context, f'tls = {{ certificate = "{chain}", key = "{key}" }}\n')


try:
    asyncio.run(main())
finally:
    machine.stop_all()
