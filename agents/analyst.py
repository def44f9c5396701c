"""The analyst of the paper's evaluation: insight, confidence, learning, acceptance, reaction.

Section 4.2 of Silva, Netto and Cunha describes software agents that stand in for people. They go
through the loop of figure 3: look at the list of suggestions, adapt it, submit, see the results.
What the text leaves open is decided here, and written down so exactly that another program can make
the same journal.

**Streams** (`agents.streams`). An episode has the streams ``insight``, ``intuition`` and
``advice``: one NumPy generator each, of which only ``random()`` is called (``u`` below; a float64
in [0, 1)). The fourth, ``session``, gives the experiment's seed (`Streams.session_seed`), from
which the session makes a generator per batch of suggestions (`assistant.decisions.stream`). All
sums and products are float64, from the first term on.

**Insight** (`agents.insight`), once, before the first round. With ``p`` candidates in the order of
their ranks and ``n`` members:

1. For i = 0 .. n - 1 (from 1 for a good insight, whose first member is the first candidate):
   one ``u``; ``j = i + floor(u (p - i))``; candidates i and j change places. The members are the
   first n candidates, in this order.
2. For each member in order one ``u``: its weight is ``1 - u``.

No insight draws nothing, and has no subset.

**A round** (`agents.rounds`). ``N`` runs are submitted already.

1. ``reaction_s`` simulated seconds pass.
2. It ends if the agreement's deadline or cost is used up, if ``N`` is at ``max_runs``, or if no
   configuration is free. The round has ``n = min(batch, max_runs - N)`` runs, and
   no more than are left until the clustering advice is due.
3. If ``N`` is where the clustering advice is due, and she accepts it (one ``u`` of ``advice``, see
   below), the exploitation level is set: `Session.change_strategy`.
4. **Confidence** c, in per cent. ``k = share(N + n) - share(N)`` of the n runs are Copperline's,
   where ``share(x) = floor((c x + 50) / 100)`` in whole numbers: c % of all runs, rounded to the
   nearest one, after each round. A share and no coin, as the text has it: "if the user submits
   100 jobs and the confidence level is 40%, then 40 jobs are submitted based on Copper
   recommendation". If k > 0 she asks for k suggestions (`Session.initial_evaluation` in the first
   round, `Session.suggest` in others) and submits all of them in their order. She asks for no more
   than she will take, since a suggestion that was left lying is not proposed again.
   Without k there is no batch: batches are numbered by the rounds that asked. Their source in the
   journal is ``initial`` in the first round, and while no run has completed (`Suggestion.kind`),
   else ``suggested``.
5. If a warning came with the suggestions, ``reaction_s`` seconds pass, then she answers it:
   accepted (`Advice.unattended`; one ``u`` of ``advice``) or ignored. Accepting brings another
   batch, of which she takes the first k, or leaves the one there is.
6. The rest of the n runs is her own, as many as k suggestions fell short included. Each is drawn by
   **intuition** (below) among the configurations without a run, those of step 4 not among them,
   and submitted at once (`Session.include`). Their source in the journal is ``analyst``.
7. Everything that waits is executed, in the order of submission.
8. She sees the results of the round in the order of their run numbers; see **learning**. If
   `Episode.until` is true of one of them, the episode ends.

Acceptance a is a probability: 0 and 1 draw nothing; between, she accepts if ``u < a``.

**Intuition** (`agents.intuition`): one configuration.

1. The well. If no member of the subset is free (or there is no subset): a learner draws from the
   ``levels``, others from the ``space``. Else others draw from the ``subset``; a learner takes one
   ``u``: position 0 of `pick` over the two weights of trust is the ``subset``, 1 the ``levels``.
2. ``subset``: up to 32 times one ``u``: the first member whose running sum of weights
   (`numpy.cumsum` over the members in order) exceeds ``u`` times the last running sum
   (`bisect_right`), until it is free. After 32: one ``u``, `pick` over the weights of the free
   members in their order.
3. ``levels``: up to 32 times one ``u`` for each parameter in order: `pick` over the weights of its
   levels, until the configuration is free. After 32: as from the ``space``, and it counts as that.
4. ``space``: up to 32 times one ``u``: flat index ``floor(u size)``, until it is free. After 32:
   one ``u``: the ``floor(u f)``-th (from 0) of the f free ones by flat index.

**Learning** (`agents.learning`), learners only. At first, with a subset, level j of a parameter
with ``L`` levels weighs ``L ((1 - mass) (S_j / S) + mass / L)``: ``S_j`` is the sum of the weights
of the members with this level, in their order, ``S`` the last running sum; then it is bounded to
[1 / bound, bound]. Without a subset every level weighs 1. Trust weighs ``2 trust`` for the subset
and ``2 (1 - trust)`` for the levels, bounded likewise.

A result is compared with all before it, Copperline's too: above the one at position ``n // 2`` of
the n earlier qualities in ascending order it is good, below it bad, otherwise neither; a failed run
is bad, and is not compared with. In a good result the weight w of each of its levels, and of the
well that it was drawn from (if that was subset or levels), becomes ``min(w (1 + rate), bound)``; in
a bad one ``max(w / (1 + rate), 1 / bound)``.

The paper's own agents are given by section 4.2: three insights, confidence 0 to 100 %, learning or
not, acceptance 1, reaction 0. Confidence 100 % is `agents.follower`.
"""

from dataclasses import dataclass

from agents.episode import Episode
from agents.insight import Insight, draw_subset
from agents.intuition import Intuition
from agents.learning import Learning
from agents.rounds import Manner, play_rounds
from assistant import Executor, Session

NO_INSIGHT = Insight("none")


@dataclass(frozen=True, slots=True)
class Analyst:
    """A simulated person.

    Args:
        insight: how her subset of the space is drawn.
        confidence: share of the runs that she takes from Copperline, in whole per cent.
        learning: how results change what she tries; None if they do not.
        batch: runs that she submits at a time; 5 is a construction of the paper's GRASP with its
            4 neighbours.
        acceptance: probability that she accepts an advice, from 0 (never) to 1 (always).
        reaction_s: simulated seconds until she answers: a list of suggestions, or an advice.

    Raises:
        AssistantError: a field is out of range.
    """

    insight: Insight = NO_INSIGHT
    confidence: int = 100
    learning: Learning | None = None
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        self.manner  # noqa: B018 - refuses what is out of range

    @property
    def manner(self) -> Manner:
        """How she goes through the loop."""
        return Manner(self.confidence, self.batch, self.acceptance, self.reaction_s)

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        return "analyst"

    def play(self, session: Session, executor: Executor, episode: Episode) -> str:
        """Steer a new session; see `agents.episode.Agent.play` and the top of this module."""
        subset = draw_subset(self.insight, episode.truth, episode.streams.generator("insight"))
        rng = episode.streams.generator("intuition")
        intuition = Intuition(episode.truth, subset, self.learning, rng)
        return play_rounds(self.manner, intuition, session, executor, episode)
