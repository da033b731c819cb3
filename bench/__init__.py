"""Benchmarks, which print ratios or percentiles of one run as a table."""
