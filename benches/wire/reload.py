"""Configuration reloads under load: ten per second, half of them of an invalid file."""

import asyncio
import os
import signal
import sys
import time

from parts import Gateways, Load, WebSocket, app

RATE, CLIENTS, SOCKETS, RELOADS = 1000, 50, 200, 300


async def main():
    server = await asyncio.start_server(app, "127.0.0.1", 0, backlog=1024)
    gateways = Gateways(sys.argv[1], server.sockets[0].getsockname()[1])
    await asyncio.to_thread(gateways.start_first)
    load = Load(gateways.port, RATE, CLIENTS)
    sockets = [WebSocket(gateways.port) for _ in range(SOCKETS)]
    tasks = [asyncio.create_task(load.run()), *(asyncio.create_task(one.run()) for one in sockets)]
    begun = time.monotonic()
    for number in range(RELOADS):
        more = f'[[apps]]\nid = "other-{number}"\naccess = "user"\nupstream = "http://127.0.0.1:9"\n'
        text = gateways.text(gateways.admin, "[[apps" if number % 2 else more)
        with open(gateways.config + ".next", "w") as file:
            file.write(text)
        os.rename(gateways.config + ".next", gateways.config)
        gateways.running.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.1)
    success = await asyncio.to_thread(gateways.metric, "ludgate_config_last_reload_success")
    apps = await asyncio.to_thread(gateways.metric, "ludgate_catalog_apps")
    load.stopping = True
    await tasks[0]
    seconds = time.monotonic() - begun
    ended = sum(len(one.ended) + one.broken for one in sockets)
    print(f"reload: {load.done} requests in {seconds:.0f} s ({load.done / seconds:.0f}/s), {load.failed} failed, slowest {load.worst * 1e3:.0f} ms; {RELOADS} reloads, half of them invalid")
    if load.errors:
        print(f"reload: failures {load.errors}")
    print(f"reload: {ended} of {SOCKETS} WebSockets ended; the last file was invalid (success = {success:.0f}), the previous one stays in effect ({apps:.0f} apps)")
    for task in tasks[1:]:
        task.cancel()
    await asyncio.to_thread(gateways.stop)
    server.close()


asyncio.run(main())
