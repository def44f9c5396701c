"""Parameter spaces: parameters, exclusions, configurations, errors; imports no other folder."""
