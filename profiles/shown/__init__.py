"""What pages show of a profile: its figures, names and pictures in the reader's words."""
