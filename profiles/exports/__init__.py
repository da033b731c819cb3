"""Export profiles as files for other programs."""
