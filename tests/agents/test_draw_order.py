"""The order of draws in `agents.analysts.analyst`, followed by hand in a second program.

It shares no code with the agents but the streams; lists and sums are as plain as they can be.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import Analyst, EpisodeStreams, Insight, Learning, Truth
from tests.agents.examples import indices, played, truth


def first_above(weights: list[float], u: float) -> int:
    total = 0.0
    for weight in weights:
        total = total + weight
    running = 0.0
    for i in range(len(weights)):
        running = running + weights[i]
        if running > u * total:
            return i
    return len(weights) - 1


class ByHand:
    """An analyst as the text describes her."""

    def __init__(self, agent: Analyst, known: Truth, replication: int) -> None:
        self.known, self.agent = known, agent
        streams = EpisodeStreams((77,), replication)
        insight, self.u = (
            streams.generator("insight"),
            streams.generator("intuition").random,
        )
        size = known.size
        quality = [None if q != q else float(q) for q in known.quality]
        ranked = sorted(
            (i for i in range(size) if quality[i] is not None), key=lambda i: (-quality[i], i)
        )  # type: ignore[operator]
        rule = agent.insight
        up = lambda x: int(x) + (x > int(x))  # noqa: E731
        pool: list[int] = []
        if rule.kind == "good":
            pool = ranked[: max(rule.least, up(rule.best * len(ranked)))]
        elif rule.kind == "bad":
            pool = ranked[len(ranked) - up(rule.worst * len(ranked)) :]
            pool = [i for i in pool if quality[i] != quality[ranked[0]]]
        n = min(len(pool), max(rule.least, up(rule.members * size))) if pool else 0
        for i in range(rule.kind == "good", n):
            j = i + int(insight.random() * (len(pool) - i))
            pool[i], pool[j] = pool[j], pool[i]
        self.members = pool[:n]
        self.weight = [1.0 - insight.random() for _ in self.members]
        self.free = set(range(size))
        self.quality, self.seen = quality, list[float]()
        self.well: dict[int, int] = {}
        if agent.learning is not None:
            self.begin(agent.learning)

    def begin(self, rule: Learning) -> None:
        self.levels: list[list[float]] = []
        for p, n in enumerate(self.known.n_levels):
            self.levels.append([1.0] * n)
            if not self.members:
                continue
            total = 0.0
            for w in self.weight:
                total = total + w
            for level in range(n):
                part = 0.0
                for member, w in zip(self.members, self.weight, strict=True):
                    if self.known.level_ids[member, p] == level:
                        part = part + w
                start = n * ((1.0 - rule.mass) * (part / total) + rule.mass / n)
                self.levels[p][level] = min(max(start, 1.0 / rule.bound), rule.bound)
        trust = (2.0 * rule.trust, 2.0 * (1.0 - rule.trust))
        self.trust = [min(max(w, 1.0 / rule.bound), rule.bound) for w in trust]

    def own(self) -> int:
        learns = self.agent.learning is not None
        if not self.free & set(self.members):
            well = 1 if learns else 2
        else:
            well = first_above(self.trust, self.u()) if learns else 0
        found = -1
        for _ in range(32):
            if well == 0:
                total = 0.0
                for w in self.weight:
                    total = total + w
                target, running, found = self.u() * total, 0.0, self.members[-1]
                for member, w in zip(self.members, self.weight, strict=True):
                    running = running + w
                    if running > target:
                        found = member
                        break
            elif well == 1:
                found = 0
                for weights in self.levels:
                    found = found * len(weights) + first_above(weights, self.u())
            else:
                found = int(self.u() * self.known.size)
            if found in self.free:
                break
        else:
            if well == 0:
                left = [i for i, m in enumerate(self.members) if m in self.free]
                position = first_above([self.weight[i] for i in left], self.u())
                found = self.members[left[position]]
            else:
                if well == 1:
                    well = 2
                    for _ in range(32):
                        found = int(self.u() * self.known.size)
                        if found in self.free:
                            break
                if found not in self.free:
                    found = sorted(self.free)[int(self.u() * len(self.free))]
        self.well[found] = well
        self.free.discard(found)
        return found

    def see(self, index: int) -> None:
        rule, quality = self.agent.learning, self.quality[index]
        if rule is None:
            return
        good, bad = False, quality is None
        if quality is not None:
            if self.seen:
                middle = sorted(self.seen)[len(self.seen) // 2]
                good, bad = quality > middle, quality < middle
            self.seen.append(quality)
        if not good and not bad:
            return

        def moved(w: float) -> float:
            step = 1.0 + rule.rate
            return min(w * step, rule.bound) if good else max(w / step, 1.0 / rule.bound)

        for p, weights in enumerate(self.levels):
            level = int(self.known.level_ids[index, p])
            weights[level] = moved(weights[level])
        if self.well.get(index, 2) < 2:
            self.trust[self.well[index]] = moved(self.trust[self.well[index]])


def check(agent: Analyst, known: Truth, replication: int, max_runs: int) -> int:
    """Replay an episode by hand, its suggestions as they were; return the runs of her own."""
    session, _ = played(agent, known, replication=replication, max_runs=max_runs)
    hers = ByHand(agent, known, replication)
    journal = list(zip(indices(session), session.experiment.runs, strict=True))
    n = n_own = 0
    while n < len(journal):
        size = min(agent.batch, max_runs - n)
        k = (agent.confidence * (n + size) + 50) // 100 - (agent.confidence * n + 50) // 100
        of_round = journal[n : n + size]
        for index, run in of_round[:k]:
            assert run.source in (("initial",) if n == 0 else ("initial", "suggested"))
            hers.free.discard(index)
        for index, run in of_round[k:]:
            assert (run.source, index) == ("analyst", hers.own()), (run.id, agent)
            n_own += 1
        for index, _ in of_round:
            hers.see(index)
        n += len(of_round)
    return n_own


@settings(max_examples=25)
@given(
    st.sampled_from(["rugged", "failing"]),
    st.sampled_from(["good", "bad", "none"]),
    st.integers(0, 9).map(lambda tenth: 10 * tenth),
    st.none()
    | st.builds(Learning, st.floats(0.05, 2), st.floats(0, 1), st.floats(1.5, 50), st.floats(0, 1)),
    st.integers(1, 6),
    st.integers(0, 10**6),
)
def test_a_second_program_makes_the_same_journal(
    table: str, kind: str, confidence: int, learning: Learning | None, batch: int, replication: int
) -> None:
    insight = Insight(kind, members=0.2)  # type: ignore[arg-type]
    agent = Analyst(insight, confidence, learning, batch)
    n = check(agent, truth(table), replication, 20)
    assert n >= 20 - (confidence * 20 + 50) // 100


@pytest.mark.parametrize("learning", [None, Learning(rate=1.0, bound=1e6)])
@pytest.mark.parametrize("kind", ["good", "bad", "none"])
def test_down_to_the_last_free_configuration(kind: str, learning: Learning | None) -> None:
    agent = Analyst(Insight(kind, members=0.5, best=0.5), 0, learning, 7)  # type: ignore[arg-type]
    assert check(agent, truth("rugged"), 5, 60) == 60
