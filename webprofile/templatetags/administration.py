"""Template tags of the admin site: audit log entries and counts of devices by heartbeat."""

from django import template

from accounts.models import AuditEntry
from webprofile.admin.entries import action_name, differences
from workers.heartbeats import HeartbeatStatus, count_heartbeat_statuses
from workers.models import Worker

register = template.Library()
register.filter(action_name)
register.filter(differences)


@register.simple_tag
def recent_entries(limit: int) -> list[AuditEntry]:
    """Return the newest entries of the audit log."""
    return list(AuditEntry.objects.all()[:limit])


@register.simple_tag
def heartbeat_counts() -> list[tuple[HeartbeatStatus, int]]:
    """Return the number of devices in service by heartbeat status, without counts of zero."""
    counts = count_heartbeat_statuses(Worker.objects.filter(retired_at=None))
    return [(status, count) for status, count in counts.items() if count]
