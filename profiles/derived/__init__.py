"""Derived data: made from raw files by a limited process, stored, loaded, and made anew."""
