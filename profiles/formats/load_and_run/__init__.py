"""Reader of `load_and_run --profile`: bytes in, numpy columns out. No Django, no MegEngine."""
