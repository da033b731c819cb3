"""What to do next: rules that look at a profile and say where time could be saved.

`advise` runs the rules; each family of them has a module, each rule a function with its reason and
its thresholds. Figures that are called measured below are of MegEngine 1.13.0 on an x86 server.
"""

from profiles.analysis.advice.finding import Estimate, Facts, Finding, Severity, Waits
from profiles.analysis.advice.registry import RULES, Advice, Rule, advise

__all__ = ["RULES", "Advice", "Estimate", "Facts", "Finding", "Rule", "Severity", "Waits", "advise"]
