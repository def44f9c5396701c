"""Studies of simulated analysts: their files, episodes, results, reports and repository."""
