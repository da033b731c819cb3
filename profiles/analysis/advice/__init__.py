"""Recommendations: rules that inspect a profile and find where time could be saved.

`registry.advise` evaluates the rules. Each module holds one family of rules; each rule is a
function with its reason and thresholds. Figures described as measured are from MegEngine 1.13.0 on
an x86 server.
"""
