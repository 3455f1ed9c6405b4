"""The package `redlock-py` as a worker."""

import sys

import callers
from redlock import Redlock

manager = Redlock(sys.argv[1:])
callers.serve(callers.threads(lambda key: manager.lock(key, 10_000), manager.unlock))
