"""`make chaos`: a whole site under load, with faults from a seed. See docs/faults.md."""
