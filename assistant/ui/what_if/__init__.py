"""What if: another share, budget, deadline, goal or strategy, seen before it is made."""
