"""*AI platform*: play one configuration, look at a trace, compare a log with its simulation."""
