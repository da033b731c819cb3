"""Pure numpy on profile columns: what `profile_analyze` computes, and beyond."""
