"""Simulated analysts: users of the assistant's public API like any other, and studies of them."""

from agents.analyst import Analyst
from agents.contrasts import Finding, findings
from agents.episode import Agent, Clustering, Episode
from agents.files import copy_files
from agents.follower import Follower
from agents.insight import Insight
from agents.learning import Learning
from agents.one_at_a_time import OneAtATime
from agents.outcome import Shown, results_of, shown, stamp, study_of
from agents.playbooks import (
    FIGURE_NAMES,
    Recipe,
    Reproduced,
    Space,
    Verdict,
    evaluation_as_json,
    reproduce,
    tally,
    write_evaluation,
)
from agents.playing import Played, play_episode
from agents.registry import AGENTS, AgentEntry, agent_entry
from agents.report import study_as_json, study_rows, write_report
from agents.results import read_parquet
from agents.rounds import Manner
from agents.running import Finished, play_study, read_played, truth_of, truths
from agents.shelf import Kept, Shelf, State
from agents.simulated import SimulatedClock, SimulatedExecutor
from agents.streams import Streams
from agents.study import Cell, Chosen, Stop, Study, Table
from agents.study_file import Asked, parse_study, read_study
from agents.truth import Truth
from agents.under_way import UnderWay

__all__ = [
    "AGENTS",
    "FIGURE_NAMES",
    "Agent",
    "AgentEntry",
    "Analyst",
    "Asked",
    "Cell",
    "Chosen",
    "Clustering",
    "Episode",
    "Finding",
    "Finished",
    "Follower",
    "Insight",
    "Kept",
    "Learning",
    "Manner",
    "OneAtATime",
    "Played",
    "Recipe",
    "Reproduced",
    "Shelf",
    "Shown",
    "SimulatedClock",
    "SimulatedExecutor",
    "Space",
    "State",
    "Stop",
    "Streams",
    "Study",
    "Table",
    "Truth",
    "UnderWay",
    "Verdict",
    "agent_entry",
    "copy_files",
    "evaluation_as_json",
    "findings",
    "parse_study",
    "play_episode",
    "play_study",
    "read_parquet",
    "read_played",
    "read_study",
    "reproduce",
    "results_of",
    "shown",
    "stamp",
    "study_as_json",
    "study_of",
    "study_rows",
    "tally",
    "truth_of",
    "truths",
    "write_evaluation",
    "write_report",
]
