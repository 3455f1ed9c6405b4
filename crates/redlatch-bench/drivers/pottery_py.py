"""The package `pottery` as a worker."""

import asyncio
import sys

import callers
from pottery import AIORedlock
from redis.asyncio import Redis


async def main():
    masters = [Redis.from_url(url) for url in sys.argv[1:]]

    async def make():
        async def acquire(key):
            lock = AIORedlock(key=key, masters=masters, auto_release_time=10)
            return lock if await lock.acquire(timeout=1) else None

        return acquire, lambda held: held.release()

    await callers.coroutines(make)


asyncio.run(main())
