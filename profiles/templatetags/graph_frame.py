"""The frame that a graph is drawn in."""

from django import template

from profiles import viewer

register = template.Library()
register.simple_tag(viewer.viewer_address)
