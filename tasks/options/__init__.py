"""The options of load_and_run in the reader's words: help, rows of the form and of their page."""
