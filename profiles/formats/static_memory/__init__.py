"""The memory plan of a static graph, as `load_and_run --get-static-mem-info` writes it."""
