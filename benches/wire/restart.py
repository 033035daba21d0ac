"""Rolling restarts under load: 1,000 requests per second and 200 WebSockets.

The processes inherit one listening socket. With `takeover`, each opens its own on the same port.
Then the accept queue of a closed socket is lost, unless net.ipv4.tcp_migrate_req makes the kernel
migrate it. So the output contains this setting.
"""

import asyncio
import sys
import time

from parts import Gateways, Load, WebSocket, app

# All come from one address, so the share of one client does not apply.
RATE, CLIENTS, SOCKETS, RESTARTS, EVERY = 1000, 50, 200, 5, 8


async def main():
    takeover = sys.argv[2:] == ["takeover"]
    mode = "restart"
    if takeover:
        with open("/proc/sys/net/ipv4/tcp_migrate_req") as file:
            mode = f"takeover (tcp_migrate_req = {file.read().strip()})"
    server = await asyncio.start_server(app, "127.0.0.1", 0, backlog=1024)
    gateways = Gateways(sys.argv[1], server.sockets[0].getsockname()[1], '[limits]\nstop_grace = "2s"\nclient_share = 100\n', takeover)
    await asyncio.to_thread(gateways.start_first)
    load = Load(gateways.port, RATE, CLIENTS)
    sockets = [WebSocket(gateways.port) for _ in range(SOCKETS)]
    tasks = [asyncio.create_task(load.run()), *(asyncio.create_task(one.run()) for one in sockets)]
    begun, exit_failures, longest = time.monotonic(), 0, 0.0
    await asyncio.sleep(3)
    for _ in range(RESTARTS):
        old = await asyncio.to_thread(gateways.replace)
        stopping = time.monotonic()
        code = await asyncio.to_thread(old.wait, 60)
        longest = max(longest, time.monotonic() - stopping)
        exit_failures += code != 0
        await asyncio.sleep(EVERY - (time.monotonic() - stopping))
    load.stopping = True
    await tasks[0]
    ended = [code for one in sockets for _, code in one.ended]
    seconds = time.monotonic() - begun
    print(f"{mode}: {load.done} requests in {seconds:.0f} s ({load.done / seconds:.0f}/s), {load.failed} failed, slowest {load.worst * 1e3:.0f} ms; {RESTARTS} restarts")
    if load.errors:
        print(f"{mode}: failures {load.errors}")
    print(f"{mode}: {len(ended)} WebSockets closed, {ended.count(1001)} of them with 1001; {sum(one.broken for one in sockets)} ended without a close frame; {sum(one.echoes for one in sockets)} echoes")
    print(f"{mode}: the old process exited after {longest:.1f} s at most, {exit_failures} times with an exit code other than 0")
    for task in tasks[1:]:
        task.cancel()
    await asyncio.to_thread(gateways.stop)
    server.close()


asyncio.run(main())
