"""Benchmarks: figures as ratios or percentiles, measured in one run, printed as a table."""
