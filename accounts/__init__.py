"""Users, how they log in, and the audit log."""
