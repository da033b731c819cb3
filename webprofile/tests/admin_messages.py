"""Read the messages at the top of admin pages."""

import html
import re
from typing import Any

from django.db.models import Model
from django.test import Client


def messages_in(page: str) -> list[str]:
    """Return the texts of the messages of a page in order."""
    _, _, rest = page.partition('<ul class="messagelist">')
    texts = re.findall(r"<li[^>]*>(.*?)</li>", rest.partition("</ul>")[0], re.DOTALL)
    return [html.unescape(text) for text in texts]


def messages_after(client: Client, address: str, action: str, *rows: Model) -> list[str]:
    """Run an action of an admin list on rows, with its confirmation; return the messages."""
    chosen: dict[str, Any] = {"action": action, "_selected_action": [row.pk for row in rows]}
    page = client.post(address, {**chosen, "confirm": "yes"}, follow=True)
    return messages_in(page.content.decode())
