"""Names from files where a template can set no element around them."""

from django import template

from profiles.presenters.isolating import isolated, visible

register = template.Library()
register.filter("isolated", isolated)
register.filter("visible", visible)
