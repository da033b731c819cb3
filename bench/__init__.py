"""Benchmarks. Each prints ratios or percentiles of one run as a table."""
