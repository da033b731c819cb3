"""Run several requests at the same moment, in tests with `transactional_db`."""

import threading
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from webprofile.errors import DomainError


def at_once(*acts):
    """Run functions concurrently, each in its own thread and connection; return their results.

    For a function that raises DomainError the result is the error code.
    """
    barrier = threading.Barrier(len(acts))

    def run(act):
        barrier.wait()
        try:
            return act()
        except DomainError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))
