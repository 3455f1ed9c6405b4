"""The package `aioredlock` as a worker."""

import asyncio
import logging
import sys

import callers
from aioredlock import Aioredlock, LockError

logging.disable()


async def make():
    # A manager for each caller: one remembers only one lock of a name.
    manager = Aioredlock(sys.argv[1:])

    async def acquire(key):
        try:
            return await manager.lock(key, lock_timeout=10)
        except LockError:
            return None

    async def release(held):
        try:
            await manager.unlock(held)
        except LockError:
            pass

    return acquire, release


asyncio.run(callers.coroutines(make))
