"""Placing by an object: one class that is shown the cluster and says which task goes where."""
