"""Profiles: parse the artifacts of runs, analyse and compare them, and show and export the results.
"""
