"""Effects: what matters. Each level, each pair, what stands out of the noise, what is missing."""
