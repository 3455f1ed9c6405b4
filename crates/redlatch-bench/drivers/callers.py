"""Callers of a lock, for the drivers beside this file: orders come in on stdin,
records go out on stdout. See src/wire.rs for both."""

import asyncio
import json
import os
import sys
import threading
import time

now = time.monotonic_ns


def key_of(order, number):
    return f"{order['key']}:{number}" if order["own"] else order["key"]


def report(done, before):
    """Prints what each caller did: its turns, and how often it gave up."""
    record = {
        "callers": [turns for turns, _ in done],
        "gave_up": sum(n for _, n in done),
        "cpu_ns": time.process_time_ns() - before,
    }
    print(json.dumps(record), flush=True)


def size(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def append(path):
    with open(path, "ab") as file:
        file.write(b".")


def serve(run):
    print("ready", flush=True)
    for line in sys.stdin:
        before = time.process_time_ns()
        report(run(json.loads(line)), before)


def threads(acquire, release):
    """Callers as threads. `acquire` returns None when the library gives up."""

    def caller(order, number, done):
        turns, next_turn, gave_up, key = [], number, 0, key_of(order, number)
        time.sleep(max(0, order["begin_ns"] - now()) / 1e9)
        while now() < order["end_ns"]:
            if order["baton"] and size(order["baton"]) < next_turn:
                time.sleep(0.001)
                continue
            asked, held = now(), None
            deadline = asked + order["wait_ms"] * 1_000_000
            while not held and now() < min(deadline, order["end_ns"]):
                try:
                    held = acquire(key)
                except Exception:  # Whatever a library throws, it has not got the lock.
                    time.sleep(0.001)
            if not held:
                gave_up += now() < order["end_ns"]
                continue
            granted = now()
            if order["baton"]:
                append(order["baton"])
                next_turn += order["callers"]
            time.sleep(order["hold_us"] / 1e6)
            releasing = now()
            try:
                release(held)
            except Exception:
                pass
            turns.append([asked, granted, releasing, now(), 0])
        done[number] = (turns, gave_up)

    def run(order):
        done, numbers = {}, range(order["first"], order["first"] + order["tasks"])
        callers = [threading.Thread(target=caller, args=(order, n, done)) for n in numbers]
        for one in callers:
            one.start()
        for one in callers:
            one.join()
        return [done[n] for n in numbers]

    return run


async def coroutines(make):
    """Callers as coroutines. `make()` returns the functions of one caller."""

    async def caller(order, number, acquire, release):
        turns, next_turn, gave_up, key = [], number, 0, key_of(order, number)
        await asyncio.sleep(max(0, order["begin_ns"] - now()) / 1e9)
        while now() < order["end_ns"]:
            if order["baton"] and size(order["baton"]) < next_turn:
                await asyncio.sleep(0.001)
                continue
            asked, held = now(), None
            deadline = asked + order["wait_ms"] * 1_000_000
            while not held and now() < min(deadline, order["end_ns"]):
                try:
                    held = await acquire(key)
                except Exception:  # Whatever a library throws, it has not got the lock.
                    await asyncio.sleep(0.001)
            if not held:
                gave_up += now() < order["end_ns"]
                continue
            granted = now()
            if order["baton"]:
                append(order["baton"])
                next_turn += order["callers"]
            if order["hold_us"]:
                await asyncio.sleep(order["hold_us"] / 1e6)
            releasing = now()
            try:
                await release(held)
            except Exception:
                pass
            turns.append([asked, granted, releasing, now(), 0])
        return turns, gave_up

    made = []
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        before, order = time.process_time_ns(), json.loads(line)
        while len(made) < order["tasks"]:
            made.append(await make())
        first = order["first"]
        callers = (caller(order, first + n, *made[n]) for n in range(order["tasks"]))
        done = await asyncio.gather(*callers)
        report(done, before)
