"""Studies of simulated analysts, study reports and repository; imports `analysts`, `compiled`."""
