"""Requests to an app that closes its connections 0-5 ms after a response.

100,000 GETs over keep-alive connections of clients, and 10,000 POSTs. The app may receive no POST
twice.
"""

import asyncio
import collections
import random
import sys
import time

from parts import Gateways, head

GETS, POSTS, CLIENTS = 100_000, 10_000, 16
received = collections.Counter()


async def app(reader, writer):
    try:
        while True:
            line, fields = await head(reader)
            length = int(fields.get("content-length", 0))
            if length:
                received[await reader.readexactly(length)] += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            if random.random() < 0.5:
                await asyncio.sleep(random.random() * 0.005)
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def client(port, kind, numbers, counts):
    streams = None
    for number in numbers:
        body = b"%016d" % number if kind == "POST" else b""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        try:
            streams = streams or await asyncio.open_connection("127.0.0.1", port)
            reader, writer = streams
            writer.write(f"{kind} /apps/app/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{length}\r\n".encode() + body)
            line, fields = await asyncio.wait_for(head(reader), 20)
            await reader.readexactly(int(fields["content-length"]))
            status = line.split(" ")[1]
            if fields.get("connection") == "close":
                streams = None
        except Exception as error:
            status, streams = repr(error), None
        counts[kind, status] += 1


async def main():
    server = await asyncio.start_server(app, "127.0.0.1", 0, backlog=1024)
    gateways = Gateways(sys.argv[1], server.sockets[0].getsockname()[1], '[limits]\nstop_grace = "0s"\n')
    await asyncio.to_thread(gateways.start_first)
    counts = collections.Counter()
    for kind, many in (("GET", GETS), ("POST", POSTS)):
        begun = time.monotonic()
        await asyncio.gather(*(client(gateways.port, kind, range(first, many, CLIENTS), counts) for first in range(CLIENTS)))
        responses = {status: count for (method, status), count in sorted(counts.items()) if method == kind}
        print(f"races: {many} {kind} in {time.monotonic() - begun:.0f} s, responses: {responses}")
    twice = sum(count > 1 for count in received.values())
    print(f"races: POSTs received by the app: {len(received)}, received twice: {twice}; responses with 200: {counts['POST', '200']}")
    await asyncio.to_thread(gateways.stop)
    server.close()


asyncio.run(main())
