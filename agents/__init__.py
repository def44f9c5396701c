"""Simulated analysts: users of the assistant's public API like any other."""

from agents.follower import Follower

__all__ = ["Follower"]
