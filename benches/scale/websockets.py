"""10,000 idle WebSockets: memory of each, and the time to open and to close all.

There are fewer if the open-file limit is lower.
"""

import asyncio
import re
import resource
import ssl
import sys
import time
import urllib.request

import machine
import pair

# Each WebSocket needs two files in the gateway. The gateway reserves some for itself.
MAXIMUM = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 500
MANY, CONCURRENT = min(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, MAXIMUM), 200
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


async def open_websocket(row, scheme, context, limit):
    async with limit:
        reader, writer = await asyncio.open_connection("127.0.0.1", row.port, ssl=context, limit=1024)
        origin = f"{scheme}://127.0.0.1:{row.port}"
        head = f"GET {row.path} HTTP/1.1\r\nHost: 127.0.0.1:{row.port}\r\nOrigin: {origin}\r\nCookie: {row.headers['Cookie']}\r\n"
        writer.write((head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n").encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer.split(b"\r\n")[0], answer
        return reader, writer


def count_streams(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as answer:
        return int(re.search(r"ludgate_streams (\d+)", answer.read().decode()).group(1))


async def measure(kind, scheme, context, listen):
    app, admin = machine.port(), machine.port()
    machine.start(machine.LOAD_CORE, sys.executable, "-c", APP, str(app))
    machine.until_open(app)
    row = pair.gateway(app, listen=listen, scheme=scheme, admin=admin)
    limit = asyncio.Semaphore(CONCURRENT)
    # Memory that grows only once is allocated before the measurement.
    warm_up = await asyncio.gather(*(open_websocket(row, scheme, context, limit) for _ in range(200)))
    before, began = machine.resident(row.process), time.monotonic()
    connections = await asyncio.gather(*(open_websocket(row, scheme, context, limit) for _ in range(MANY)))
    took = time.monotonic() - began
    cpu = sum(machine.cpu(row.process))
    await asyncio.sleep(10)
    idle = (sum(machine.cpu(row.process)) - cpu) / 10
    each = (machine.resident(row.process) - before) / MANY
    counted, closing = count_streams(admin), time.monotonic()
    for _, writer in warm_up + connections:
        writer.transport.abort()
    while count_streams(admin):
        await asyncio.sleep(0.05)
    closed = time.monotonic() - closing
    print(f"| {kind} | {counted} | {each:.1f} KiB | {took:.1f} s | {idle * 100:.1f} % of a core | {closed:.2f} s |", flush=True)


async def main():
    key, chain = pair.certificate()
    context = ssl.create_default_context(cafile=chain)
    print("| | open | resident per WebSocket | opened in | idle CPU | all closed after |\n|---|---|---|---|---|---|")
    await measure("plain", "http", None, "")
    await measure("TLS", "https", context, f'tls = {{ certificate = "{chain}", key = "{key}" }}\n')


try:
    asyncio.run(main())
finally:
    machine.stop_all()
