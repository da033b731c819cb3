"""Accounts in the API: logging in, tokens, and who one is."""
