"""A soak: a service, its workers and its human as real processes, and faults at random moments."""
