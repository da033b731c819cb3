"""Fault injection (`make chaos`): a complete site under load, with seeded random faults.

See docs/faults.md.
"""
