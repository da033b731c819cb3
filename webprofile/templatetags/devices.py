"""The status of a device, for templates."""

from django import template

from workers.status import status_of

register = template.Library()
# running tasks are not considered
register.filter("device_status", status_of)
