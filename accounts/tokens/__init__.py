"""Tokens for the API: access tokens of scripts, and pairs of JWTs with their signing keys."""
