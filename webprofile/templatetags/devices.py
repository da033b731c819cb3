"""The status of a device, for templates."""

from django import template

from workers.models import Worker
from workers.status import DeviceStatus, status_of

register = template.Library()


@register.filter
def device_status(worker: Worker) -> DeviceStatus:
    """The weightiest thing to know of a device; whether it is busy is not looked at."""
    return status_of(worker)
