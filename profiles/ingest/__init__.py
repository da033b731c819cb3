"""Derived data: built from raw files by a limited process, stored, loaded, rebuilt."""
