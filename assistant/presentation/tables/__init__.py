"""Tables of results: rows of typed values for the command line, the user interface and reports."""
