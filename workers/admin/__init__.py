"""Admin site: devices and pools."""

from workers.admin.devices import WorkerAdmin
from workers.admin.pools import PoolAdmin

__all__ = ["PoolAdmin", "WorkerAdmin"]
