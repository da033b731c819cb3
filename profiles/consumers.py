"""WebSocket of a page that shows an import while it is being read."""

from typing import Any

from channels.db import database_sync_to_async
from structlog.contextvars import bind_contextvars

from profiles.imports.progress import opened_group
from profiles.selectors import visible_imports
from webprofile.realtime.consumers import NOT_FOUND, BrowserConsumer


class OpenedConsumer(BrowserConsumer):
    """Notify the page that the import changed; the page then fetches its fragment."""

    async def connect(self) -> None:
        if not await self.is_let_in():
            return
        user = self.scope["user"]
        upload_id = self.scope["url_route"]["kwargs"]["upload_id"]
        uploads = visible_imports(user).filter(pk=upload_id)
        if not await database_sync_to_async(uploads.exists)():
            await self.close(code=NOT_FOUND)
            return
        bind_contextvars(upload=upload_id, user=user.pk)
        await self.join(opened_group(upload_id))
        # the page may be older than the last change
        await self.send_json({"type": "changed"})

    async def opened_changed(self, event: dict[str, Any]) -> None:
        if not await self.is_over():
            await self.send_json({"type": "changed"})
