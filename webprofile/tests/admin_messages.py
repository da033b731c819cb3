"""Read the messages at the top of an admin page."""

import html
import re


def messages_in(page: str) -> list[str]:
    """Return the texts of the messages of a page in order."""
    _, _, rest = page.partition('<ul class="messagelist">')
    texts = re.findall(r"<li[^>]*>(.*?)</li>", rest.partition("</ul>")[0], re.DOTALL)
    return [html.unescape(text) for text in texts]
