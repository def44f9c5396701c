"""Studies of simulated analysts, their reports and repository; imports `analysts`, `compiled`."""
