"""Statistics of times: estimates, intervals and verdicts, for the agent and for the server.

Pure functions of numbers, with numpy and the standard library alone. Each module states its
formulas, their limits and their sources.

- `summaries`: percentiles and the coefficient of variation.
- `ranks`: Hodges-Lehmann estimates and their intervals for two samples.
- `significance`: Student's t and the false discovery rate.
- `unpaired`: verdicts on two runs that were measured apart.
"""
