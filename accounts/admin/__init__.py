"""Admin site: users and the audit log."""

from accounts.admin.audit_log import AuditEntryAdmin
from accounts.admin.users import UserAdmin

__all__ = ["AuditEntryAdmin", "UserAdmin"]
