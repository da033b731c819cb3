"""Profiles: parse the artifacts of runs, analyse and compare them, show and export the results."""
