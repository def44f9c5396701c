"""Parameter spaces: parameters, exclusions, configurations and errors."""
