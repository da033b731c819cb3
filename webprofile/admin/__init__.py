"""What the administration pages of all apps have in common."""
