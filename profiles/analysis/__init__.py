"""Analyses of profile columns with numpy: the figures of `profile_analyze`, and more."""
