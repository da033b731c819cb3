"""Read by an agent's interpreter before anything else, where libfaketime is preloaded.

libfaketime 0.9.10 answers EINVAL to clock_nanosleep(2) with an absolute time of the monotonic
clock, which is how `time.sleep` waits. select(2) waits as long, and libfaketime lets it.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
