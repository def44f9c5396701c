"""Parameter spaces: parameters, exclusions, configurations and errors; it imports nothing."""
