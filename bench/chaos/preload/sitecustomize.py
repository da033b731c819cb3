"""Replace `time.sleep` in agents that run with libfaketime. Python imports this file at start.

`time.sleep` waits with clock_nanosleep(2) until an absolute time of the monotonic clock, for which
libfaketime 0.9.10 returns EINVAL. select(2) waits equally long and works.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
