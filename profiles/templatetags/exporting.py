"""What the export menu offers for a profile."""

from django import template

from profiles.exports.originals import Original, originals_of
from profiles.models import Profile

register = template.Library()


@register.simple_tag
def originals(profile: Profile) -> list[Original]:
    """The raw files of a profile, one for each profiled pass."""
    return originals_of(profile)
