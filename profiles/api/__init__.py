"""REST API of results: imports, operators, figures, comparisons and exports."""
