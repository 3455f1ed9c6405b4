"""The package `aioredlock` as a worker."""

import asyncio
import logging
import sys

import callers
from aioredlock import Aioredlock

logging.disable()


async def make():
    # A manager for each caller: one remembers only one lock of a name.
    manager = Aioredlock(sys.argv[1:])

    return lambda key: manager.lock(key, lock_timeout=10), manager.unlock


asyncio.run(callers.coroutines(make))
