"""A small mutation fuzzer over every reader: ``python -m tests.fuzz READER --seconds 120``."""
