"""Readers of profile formats: one folder for each, with its summary and presenter."""
