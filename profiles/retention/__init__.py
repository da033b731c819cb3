"""Remove old data: retention policies, and the deletion of rows and objects."""
