"""The table of operators on pages: what the address asks, which rows answer, as HTML."""
