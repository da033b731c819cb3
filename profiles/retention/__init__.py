"""Remove what is old: policies, and the deletion of rows and objects."""
