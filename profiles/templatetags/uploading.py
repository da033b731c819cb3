"""What pages that upload must know."""

from django import template
from django.conf import settings

from agent.protocol.parts import PARTS_FROM_BYTES

register = template.Library()


@register.simple_tag
def parts_from() -> int:
    """Size from which a file is sent in parts, bytes; 0 if none is."""
    return PARTS_FROM_BYTES if settings.S3_TAKES_PARTS else 0
