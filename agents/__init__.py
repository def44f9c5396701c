"""Simulated analysts who use the assistant's API, and studies of them; may import `assistant`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.analysts.analyst import (
        AGENTS,
        AgentEntry,
        Analyst,
        AnalystProfile,
        OneAtATime,
        agent_entry,
    )
    from agents.analysts.episode import (
        Agent,
        AnalystEpisode,
        ClusteringAdvice,
        EpisodeStreams,
        SimulatedClock,
        SimulatedExecutor,
        Truth,
    )
    from agents.analysts.follower import Follower
    from agents.analysts.insight import Insight, Learning
    from agents.reproduction.claims import ClaimVerdict
    from agents.reproduction.evaluation_report import evaluation_as_json, tally, write_evaluation
    from agents.reproduction.recipe import (
        FIGURE_NAMES,
        EvaluationRecipe,
        EvaluationSpace,
        Reproduction,
        reproduce,
    )
    from agents.studies.report import (
        StudyFinding,
        findings,
        study_as_json,
        study_rows,
        write_report,
    )
    from agents.studies.results import EpisodeResult, copy_files, read_parquet
    from agents.studies.study import (
        Cell,
        StoppingRule,
        StrategyChoice,
        Study,
        Table,
        TableRequest,
        parse_study,
        read_study,
    )
    from agents.studies.study_repository import (
        StoredStudy,
        StudyLock,
        StudyOutcome,
        StudyRepository,
        StudyState,
        read_outcome,
        results_of,
        stamp,
        study_of,
    )
    from agents.studies.study_runner import (
        PlayedStudy,
        play_episode,
        play_study,
        read_played,
        truth_of,
        truths,
    )

__all__ = [
    "AGENTS",
    "FIGURE_NAMES",
    "Agent",
    "AgentEntry",
    "Analyst",
    "AnalystEpisode",
    "AnalystProfile",
    "Cell",
    "ClaimVerdict",
    "ClusteringAdvice",
    "EpisodeResult",
    "EpisodeStreams",
    "EvaluationRecipe",
    "EvaluationSpace",
    "Follower",
    "Insight",
    "Learning",
    "OneAtATime",
    "PlayedStudy",
    "Reproduction",
    "SimulatedClock",
    "SimulatedExecutor",
    "StoppingRule",
    "StoredStudy",
    "StrategyChoice",
    "Study",
    "StudyFinding",
    "StudyLock",
    "StudyOutcome",
    "StudyRepository",
    "StudyState",
    "Table",
    "TableRequest",
    "Truth",
    "agent_entry",
    "copy_files",
    "evaluation_as_json",
    "findings",
    "parse_study",
    "play_episode",
    "play_study",
    "read_outcome",
    "read_parquet",
    "read_played",
    "read_study",
    "reproduce",
    "results_of",
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

_MODULES = {
    "AGENTS": "agents.analysts.analyst",
    "Agent": "agents.analysts.episode",
    "AgentEntry": "agents.analysts.analyst",
    "Analyst": "agents.analysts.analyst",
    "AnalystEpisode": "agents.analysts.episode",
    "AnalystProfile": "agents.analysts.analyst",
    "Cell": "agents.studies.study",
    "ClaimVerdict": "agents.reproduction.claims",
    "ClusteringAdvice": "agents.analysts.episode",
    "EpisodeResult": "agents.studies.results",
    "EpisodeStreams": "agents.analysts.episode",
    "EvaluationRecipe": "agents.reproduction.recipe",
    "EvaluationSpace": "agents.reproduction.recipe",
    "FIGURE_NAMES": "agents.reproduction.recipe",
    "Follower": "agents.analysts.follower",
    "Insight": "agents.analysts.insight",
    "Learning": "agents.analysts.insight",
    "OneAtATime": "agents.analysts.analyst",
    "PlayedStudy": "agents.studies.study_runner",
    "Reproduction": "agents.reproduction.recipe",
    "SimulatedClock": "agents.analysts.episode",
    "SimulatedExecutor": "agents.analysts.episode",
    "StoppingRule": "agents.studies.study",
    "StoredStudy": "agents.studies.study_repository",
    "StrategyChoice": "agents.studies.study",
    "Study": "agents.studies.study",
    "StudyFinding": "agents.studies.report",
    "StudyLock": "agents.studies.study_repository",
    "StudyOutcome": "agents.studies.study_repository",
    "StudyRepository": "agents.studies.study_repository",
    "StudyState": "agents.studies.study_repository",
    "Table": "agents.studies.study",
    "TableRequest": "agents.studies.study",
    "Truth": "agents.analysts.episode",
    "agent_entry": "agents.analysts.analyst",
    "copy_files": "agents.studies.results",
    "evaluation_as_json": "agents.reproduction.evaluation_report",
    "findings": "agents.studies.report",
    "parse_study": "agents.studies.study",
    "play_episode": "agents.studies.study_runner",
    "play_study": "agents.studies.study_runner",
    "read_outcome": "agents.studies.study_repository",
    "read_parquet": "agents.studies.results",
    "read_played": "agents.studies.study_runner",
    "read_study": "agents.studies.study",
    "reproduce": "agents.reproduction.recipe",
    "results_of": "agents.studies.study_repository",
    "stamp": "agents.studies.study_repository",
    "study_as_json": "agents.studies.report",
    "study_of": "agents.studies.study_repository",
    "study_rows": "agents.studies.report",
    "tally": "agents.reproduction.evaluation_report",
    "truth_of": "agents.studies.study_runner",
    "truths": "agents.studies.study_runner",
    "write_evaluation": "agents.reproduction.evaluation_report",
    "write_report": "agents.studies.report",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
