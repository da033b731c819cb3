"""Results compared, as pages, exports and commands need them."""
