"""Speaking to a service: the same calls as on a `Session`, from elsewhere."""
