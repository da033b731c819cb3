"""Compare two to eight profiles: alignment of operators, statistics, verdicts."""
