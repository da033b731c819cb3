"""Recommendations: rules that inspect a profile and find where time could be saved.

`advise` evaluates the rules. Each module holds one family of rules; each rule is a function with
its reason and thresholds. Figures described as measured are from MegEngine 1.13.0 on an x86 server.
"""

from profiles.analysis.advice.finding import Estimate, Finding, RunFacts, Severity, Waits
from profiles.analysis.advice.registry import RULES, Advice, Rule, advise

__all__ = [
    "RULES",
    "Advice",
    "Estimate",
    "Finding",
    "Rule",
    "RunFacts",
    "Severity",
    "Waits",
    "advise",
]
