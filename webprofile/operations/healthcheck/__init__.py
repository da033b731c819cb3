"""What `manage.py doctor` tries: each part that the site rests on, in the way that it is used.

A module for a kind of part; a function for a part returns a Finding, or raises whatever its library
raises, which `examining` puts into words.
"""
