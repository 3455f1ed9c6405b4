#!/bin/sh
# ENTRYPOINT ["/entrypoint.sh"]; the image's CMD runs under the lock that $LOCK names.
set -eu
# exec: redlatch is process 1, gets the container's signals and passes them on.
exec redlatch run "${LOCK:?names the lock}" --wait "${LOCK_WAIT:-forever}" -- "$@"
