"""Accounts in the API: login, tokens, webhooks and the current user."""
