"""Pure readers of profile formats: bytes in, numpy columns out. No Django, no MegEngine."""
