"""What is asked of a connection by those who work for many of them."""

from typing import Protocol

from workers.gateway import Replies
from workers.models import Worker


class Connection(Protocol):
    """One device's: its token, and who it was when that was looked up last."""

    token: str
    worker: Worker | None
    is_closed: bool

    async def authenticate(self) -> bool:
        """Look the token up; one that is not good ends the connection."""

    async def send_all(self, replies: Replies) -> None:
        """Say these, in this order, and after what is being said."""

    async def close(self, code: int) -> None:
        """End it; the agent comes back, and says all again that was not acknowledged."""
