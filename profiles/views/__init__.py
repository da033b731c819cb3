"""Pages of results, profiles and comparisons; one module for each kind of page."""
