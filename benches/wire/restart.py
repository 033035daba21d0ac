"""Rolling restarts under load: 1,000 requests a second offered, 200 WebSockets, one process after the other.

On a socket that is handed over, or with `takeover` on a port that both share: then the queue of a socket that is closed is
lost unless the kernel migrates it, so this says how net.ipv4.tcp_migrate_req is set.
"""

import asyncio
import sys
import time

from parts import Gateways, Load, Socket, app

RATE, CLIENTS, SOCKETS, RESTARTS, EVERY = 1000, 50, 200, 5, 8


async def main():
    takeover = sys.argv[2:] == ["takeover"]
    what = "restart"
    if takeover:
        with open("/proc/sys/net/ipv4/tcp_migrate_req") as file:
            what = f"takeover (tcp_migrate_req = {file.read().strip()})"
    server = await asyncio.start_server(app, "127.0.0.1", 0, backlog=1024)
    gateways = Gateways(sys.argv[1], server.sockets[0].getsockname()[1], '[limits]\nstop_grace = "2s"\n', takeover)
    await asyncio.to_thread(gateways.first)
    load = Load(gateways.port, RATE, CLIENTS)
    sockets = [Socket(gateways.port) for _ in range(SOCKETS)]
    tasks = [asyncio.create_task(load.run()), *(asyncio.create_task(one.run()) for one in sockets)]
    begun, late, longest = time.monotonic(), 0, 0.0
    await asyncio.sleep(3)
    for _ in range(RESTARTS):
        old = await asyncio.to_thread(gateways.replace)
        told = time.monotonic()
        code = await asyncio.to_thread(old.wait, 60)
        longest = max(longest, time.monotonic() - told)
        late += code != 0
        await asyncio.sleep(EVERY - (time.monotonic() - told))
    load.stopping = True
    await tasks[0]
    ended = [code for one in sockets for _, code in one.ended]
    seconds = time.monotonic() - begun
    print(f"{what}: {load.done} requests in {seconds:.0f} s ({load.done / seconds:.0f}/s), {load.failed} failed, slowest {load.worst * 1e3:.0f} ms; {RESTARTS} restarts")
    if load.errors:
        print(f"{what}: failures {load.errors}")
    print(f"{what}: {len(ended)} WebSockets told 1001: {ended.count(1001)}, ended without a word: {sum(one.broken for one in sockets)}; {sum(one.echoes for one in sockets)} echoes")
    print(f"{what}: the process before was gone after {longest:.1f} s at most, {late} with another exit code than 0")
    for task in tasks[1:]:
        task.cancel()
    await asyncio.to_thread(gateways.stop)
    server.close()


asyncio.run(main())
