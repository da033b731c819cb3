"""Tokens of programs: access tokens, pairs of JWTs, and the keys that sign them."""
