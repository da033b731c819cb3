"""Results compared, and the values in dumps, as pages, exports and commands need them."""
