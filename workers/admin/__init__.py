"""Admin site: devices and pools."""

from workers.admin.hardware import WorkerAdmin
from workers.admin.pools import PoolAdmin

__all__ = ["PoolAdmin", "WorkerAdmin"]
