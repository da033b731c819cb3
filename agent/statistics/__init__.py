"""Statistics of times: estimates, intervals and verdicts, for the agent and for the server.

Pure functions of numbers, which use only numpy and the standard library. Each module documents its
formulas, their limits and their sources.

- `summaries`: percentiles and the coefficient of variation.
- `ranks`: Hodges-Lehmann estimates and their intervals, for one sample and for two.
- `significance`: Student's t and the false discovery rate.
- `paired`: verdicts on two programs from pairs of processes, with looks while they are measured.
- `unpaired`: verdicts on two runs that were measured separately.
- `steadiness`: the steady state of one process, and several modes.
- `processes`: the interval of the median of one result, from several processes.
"""
