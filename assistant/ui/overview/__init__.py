"""Overview: will it do, how far is it, what is best so far, and what may come of the rest."""
