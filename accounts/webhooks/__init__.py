"""Addresses of users that are told of events: who has which, what is told, and how it is sent."""
