"""What a page is given of an experiment: its state, and who decides about it."""

from typing import Protocol

from assistant import Experiment, Session
from assistant.client import RemoteSession

Steered = Session | RemoteSession
"""Whoever takes decisions about an experiment: the same methods here and through a service."""


class Desk(Protocol):
    """An experiment on somebody's screen."""

    @property
    def session(self) -> Steered:
        """Takes the decisions."""

    @property
    def experiment(self) -> Experiment:
        """The state when the page was begun; it does not change while the page is drawn."""
