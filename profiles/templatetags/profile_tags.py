"""Small tags and filters for templates that show profiles."""

from django import template
from django.conf import settings

from agent.protocol.multipart import PARTS_FROM_BYTES
from profiles.exports.originals import Original, originals_of
from profiles.models import Profile
from profiles.netron import viewer_address
from profiles.presenters.formatting import isolated, visible

register = template.Library()
register.filter(isolated)
register.filter(visible)
register.simple_tag(viewer_address)


@register.simple_tag
def originals(profile: Profile) -> list[Original]:
    """Return the raw files of a profile, one for each profiled pass."""
    return originals_of(profile)


@register.simple_tag
def parts_from() -> int:
    """Return the size in bytes from which a file is uploaded in parts; 0 if none is."""
    return PARTS_FROM_BYTES if settings.S3_TAKES_PARTS else 0
