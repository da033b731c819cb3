"""What pages show of a profile, in the user's language."""
