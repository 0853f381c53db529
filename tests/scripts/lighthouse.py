"""torchft's lighthouse. Usage: lighthouse.py PORT HEARTBEAT_TIMEOUT, until it is killed."""

from __future__ import annotations

import signal
import sys
import time

from basegraph.engines.distributed.membership.lighthouse import torchft_coordination


def main() -> None:
    port, seconds = sys.argv[1:]
    for attempt in range(600):  # the port may be in use until an earlier one has gone
        try:
            server = torchft_coordination().LighthouseServer(
                bind=f"127.0.0.1:{port}",
                min_replicas=1,
                join_timeout_ms=600_000,
                quorum_tick_ms=50,
                heartbeat_timeout_ms=round(1000 * float(seconds)),
            )
            break
        except RuntimeError:
            if attempt == 599:
                raise
            time.sleep(0.1)
    print("listens at", server.address(), flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
