"""Users and the audit log in the administration pages."""

from accounts.admin.log import AuditEntryAdmin
from accounts.admin.users import UserAdmin

__all__ = ["AuditEntryAdmin", "UserAdmin"]
