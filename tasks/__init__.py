"""What users ask for, where it stands, and which device does it."""
