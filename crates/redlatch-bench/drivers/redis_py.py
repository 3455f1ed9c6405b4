"""The `Lock` of the package `redis` as a worker: it knows one server."""

import sys

import callers
from redis import Redis

client = Redis.from_url(sys.argv[1])


def acquire(key):
    lock = client.lock(key, timeout=10)
    return lock if lock.acquire(blocking_timeout=1) else None


callers.serve(callers.threads(acquire, lambda held: held.release()))
