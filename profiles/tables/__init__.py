"""The table of operators on pages: parse the query string, select the rows, render HTML."""
