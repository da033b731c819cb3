"""Profiles as files for other programs. Pure: numpy and msgspec only, no Django, no storage."""
