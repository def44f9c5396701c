"""HTTP service for experiments; may import all of `assistant` except its `cli` and `ui`."""
