"""Modules of the commands of ``copperline``; they may import every package, also `agents`."""
