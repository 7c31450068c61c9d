"""The founding papers beside this library: ``python -m benchmarks.papers`` prints the table."""
