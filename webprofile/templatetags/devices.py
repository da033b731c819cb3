"""The status of a device, for templates."""

from django import template

from workers.models import Worker
from workers.status import DeviceStatus, status_of

register = template.Library()


@register.filter
def device_status(worker: Worker) -> DeviceStatus:
    """Return the most important status of a device; running tasks are not considered."""
    return status_of(worker)
