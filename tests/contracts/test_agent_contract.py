"""What every registered kind of analyst promises. Being registered means being tested here."""

import pytest

from agents import AGENTS, AgentEntry, ClusteringAdvice, Insight, Learning, agent_entry
from assistant import AssistantError, Run, Sla
from assistant.core.events import SteeringChanged
from tests.agents.examples import indices, played, truth

TRAITS = {
    "analyst": [
        {"insight": Insight(kind), "confidence": confidence, "learning": learning}
        for kind in ("good", "bad", "none")
        for confidence in (0, 40, 100)
        for learning in (None, Learning())
    ],
    "one_at_a_time": [{"confidence": confidence} for confidence in (0, 40)],
}
"""What is varied of a kind; the others are tested as they are."""

CASES = [
    pytest.param(entry, traits, id=f"{entry.name}-{i}")
    for entry in AGENTS
    for i, traits in enumerate(TRAITS.get(entry.name, [{}]))
]
each = pytest.mark.parametrize(("entry", "traits"), CASES)


@each
def test_it_is_what_it_is_registered_as(entry: AgentEntry, traits: dict[str, object]) -> None:
    agent = entry.build(**traits, batch=3)
    assert agent.name == entry.name
    assert agent_entry(entry.name) is entry
    assert hash(agent) == hash(entry.build(**traits, batch=3)), "a value"


@each
@pytest.mark.parametrize("table", ["rugged", "failing"])
def test_it_spends_what_it_may_and_no_more_on_distinct_runs(
    entry: AgentEntry, traits: dict[str, object], table: str
) -> None:
    session, ended = played(entry.build(**traits, batch=4), truth(table), max_runs=14)
    runs = session.experiment.runs
    assert len(runs) == 14
    assert all(run.ended_s is not None for run in runs)
    assert len(set(indices(session))) == 14
    assert "budget" in ended


@each
def test_the_same_streams_give_the_same_journal(
    entry: AgentEntry, traits: dict[str, object]
) -> None:
    agent, known = entry.build(**traits, batch=3), truth("failing")
    once, again, other = (played(agent, known, replication=i)[0] for i in (1, 1, 2))
    assert once.events() == again.events()
    assert indices(once) != indices(other)


@each
def test_it_ends_with_the_round_that_found_what_was_wanted(
    entry: AgentEntry, traits: dict[str, object]
) -> None:
    known, seen = truth("rugged"), list[int]()

    def seventh(run: Run) -> bool:
        seen.append(run.id)
        return run.id == 7

    session, ended = played(
        entry.build(**traits, batch=2), known, max_runs=60, until=seventh, strategy="random"
    )
    n = len(session.experiment.runs)
    assert ended == "the target is reached"
    assert 7 <= n <= 10, "first runs of an unattended sweep are ten at once"
    assert sorted(seen) == seen
    assert len(set(seen)) == len(seen), "each result is looked at once"


@each
def test_a_whole_space_is_an_end(entry: AgentEntry, traits: dict[str, object]) -> None:
    known = truth("flat")
    session, ended = played(entry.build(**traits, batch=4), known, max_runs=50)
    assert sorted(indices(session)) == list(range(known.size))
    assert "exhausted" in ended


@each
def test_the_clustering_advice_comes_when_it_is_due(
    entry: AgentEntry, traits: dict[str, object]
) -> None:
    session, _ = played(
        entry.build(**traits, batch=4),
        truth("rugged"),
        max_runs=16,
        clustering=ClusteringAdvice(11, 0.5),
    )
    events = session.events()
    changed = [i for i, event in enumerate(events) if isinstance(event, SteeringChanged)]
    assert len(changed) == 1
    before = [event for event in events[: changed[0]] if type(event).__name__ == "RunSubmitted"]
    assert len(before) == 11
    assert session.experiment.steering.exploitation == 0.5
    assert len(session.experiment.runs) == 16


@each
def test_a_deadline_ends_it(entry: AgentEntry, traits: dict[str, object]) -> None:
    from agents.analysts.episode import EPOCH_S

    session, ended = played(
        entry.build(**traits, batch=2),
        truth("rugged"),
        max_runs=40,
        sla=Sla(deadline_s=EPOCH_S + 9.5),
        run_s=1.0,
    )
    over = [run for run in session.experiment.runs if run.ended_s is not None]
    assert len(over) == 10, "the tenth begins in time, and is over after it"
    assert "deadline" in ended


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(AssistantError, match="no kind of analyst 'analist'; did you mean"):
        agent_entry("analist")
