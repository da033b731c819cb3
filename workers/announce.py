"""Wake-ups of agents' connections; they carry no data, since delivery is at most once."""

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction


def worker_group(worker_id: int) -> str:
    return f"worker.{worker_id}"


def worker_revoked_on_commit(worker_id: int) -> None:
    """Tell the connection of this worker's agent that its token is void."""
    transaction.on_commit(lambda: _send_revoked(worker_id), robust=True)


def _send_revoked(worker_id: int) -> None:
    send = async_to_sync(get_channel_layer().group_send)
    send(worker_group(worker_id), {"type": "worker.revoked"})
