"""Channel-layer wake-ups of agents' connections; without data, as delivery is at most once."""

from django.db import transaction

from webprofile.realtime.layer import tell


def worker_group(worker_id: int) -> str:
    return f"worker.{worker_id}"


def worker_revoked_on_commit(worker_id: int) -> None:
    """Tell the connections of this worker's agent to check their token again."""
    group, message = worker_group(worker_id), {"type": "worker.revoked"}
    transaction.on_commit(lambda: tell({group}, message), robust=True)
