"""Results in the API: opened, analysed, compared, exported."""
