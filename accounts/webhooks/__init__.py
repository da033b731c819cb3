"""Webhooks: registration by users, deliveries of events, and the HTTP calls."""
