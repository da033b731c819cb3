"""Page views of results, imports and comparisons, one module for each kind of page."""
