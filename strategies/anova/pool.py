"""Which configurations are compared: all that are free, or where those are too many, a pool.

The pool of a large space comes from greedy randomised constructions (the second idea of the Copper
paper, here on the model's own effects): parameter after parameter, a level is drawn from those
whose expected quality, given the levels chosen so far and averaged over the rest, is within a
greediness of the best. The best of the pool are then improved one parameter at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import numpy as np

from strategies.anova.kernel import Floats, Ints
from strategies.anova.model import AnovaModel
from strategies.configuration import Configuration
from strategies.knowledge import Knowledge
from strategies.space import ParameterSpace

CONSTRUCTIONS = 256
ORDERS = 4
"""Orders of the parameters, each with its share of the constructions."""

RANDOM = 512
KEPT = 8
"""Configurations of the pool whose neighbours are looked at, round by round."""

ROUNDS = 6
NEARBY = 48
"""Other levels of a parameter with more of them that count as neighbours."""

Worth = Callable[[Ints], Floats]
"""What runs of level ids [m, d] are worth, [m]."""


def free_ids(knowledge: Knowledge, taken: Set[Configuration]) -> Ints | None:
    """Return the level ids [m, d] of all free configurations; None if those are too many."""
    space = knowledge.space
    allowed = space.allowed_ids
    if allowed is None:
        return None
    if not taken:
        return allowed
    rows = np.array([c.level_ids for c in taken], dtype=np.int64)
    found: Ints = allowed[~np.isin(_numbers(space, allowed), _numbers(space, rows))]
    return found


def best_of_pool(
    model: AnovaModel,
    knowledge: Knowledge,
    taken: Set[Configuration],
    worth: Worth,
    rng: np.random.Generator,
) -> Configuration | None:
    """Return the most promising free configuration that is found; None if none is found."""
    runs = np.argsort(-model.targets.z, kind="stable")[:KEPT]
    centres = _restored(model, knowledge, model.ids[runs])
    pool = np.concatenate(
        [
            constructions(model, knowledge, rng),
            _drawn(knowledge, rng),
            _around(centres, knowledge, rng),
        ]
    )
    best: Ints = np.zeros((0, pool.shape[1]), dtype=np.int64)
    top = -np.inf
    for _ in range(ROUNDS):
        free = _free(pool, knowledge, taken)
        if not len(free):
            break
        found = worth(free)
        order = np.argsort(-found, kind="stable")[:KEPT]
        if float(found[order[0]]) <= top:
            break
        top, best = float(found[order[0]]), free[order]
        pool = np.concatenate([best, _around(best, knowledge, rng)])
    if not len(best):
        return None
    return Configuration(tuple(int(i) for i in best[0]), knowledge.space.lineage)


def constructions(model: AnovaModel, knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    """Return level ids [m, d] of greedy randomised constructions on the model's effects.

    Single-level and closed levels aside, all open levels are candidates; exclusions are not
    looked at here.
    """
    space, posterior = knowledge.space, model.posterior
    h, d = model.hyperparameters, max(len(model.axes), 1)
    levels = model.averaging_levels()
    per_order = CONSTRUCTIONS // ORDERS
    found = np.zeros((CONSTRUCTIONS, len(space.parameters)), dtype=np.int64)
    for i, ids in enumerate(space.open_ids):
        found[:, i] = ids[0]
    own = [posterior.correlation(i, levels[i]) for i in range(len(model.axes))]
    weights = posterior.weights
    for block in range(ORDERS):
        rows = slice(block * per_order, (block + 1) * per_order)
        greediness = rng.random(per_order)
        product = np.ones((per_order, len(weights)))
        rest = np.prod([z.mean(axis=0) for z in own], axis=0) if own else np.ones(len(weights))
        for i in rng.permutation(len(model.axes)):
            z = own[i]
            rest = rest / z.mean(axis=0)
            effects = h.main / d * (z @ weights) + h.product * ((product * rest * weights) @ z.T)
            choice = _chosen(effects, greediness, rng)
            product *= z[choice]
            found[rows, model.columns[i]] = levels[i][choice]
    return found


def _chosen(effects: Floats, greediness: Floats, rng: np.random.Generator) -> Ints:
    """Draw one level per construction from those good enough; effects [m, levels]."""
    least, most = effects.min(axis=1), effects.max(axis=1)
    threshold = least + greediness * (most - least)
    candidates = effects >= np.minimum(threshold, most)[:, None]
    lots = np.where(candidates, rng.random(effects.shape), -1.0)
    chosen: Ints = lots.argmax(axis=1)
    return chosen


def _drawn(knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    """Draw open levels uniformly, [m, d]."""
    columns = [
        np.array(ids)[rng.integers(len(ids), size=RANDOM)] for ids in knowledge.space.open_ids
    ]
    return np.stack(columns, axis=1)


def _around(centres: Ints, knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    """Return every configuration that differs from a centre in one parameter, [m, d].

    Of a parameter with many levels the nearest ones and some at random.
    """
    found = [centres]
    for i, (parameter, ids) in enumerate(
        zip(knowledge.space.parameters, knowledge.space.open_ids, strict=True)
    ):
        for centre in centres:
            others = np.array(ids, dtype=np.int64)
            if others.size > NEARBY:
                ranks = np.array(parameter.ranks)[others]
                near = np.argsort(np.abs(ranks - parameter.ranks[centre[i]]), kind="stable")
                half = NEARBY // 2
                others = np.concatenate(
                    [others[near[:half]], others[rng.integers(others.size, size=half)]]
                )
            moved = np.repeat(centre[None, :], others.size, axis=0)
            moved[:, i] = others
            found.append(moved)
    return np.concatenate(found)


def _restored(model: AnovaModel, knowledge: Knowledge, ids: Ints) -> Ints:
    """Return level ids of all parameters from those that the model looks at."""
    found = np.zeros((len(ids), len(knowledge.space.parameters)), dtype=np.int64)
    for i, open_ids in enumerate(knowledge.space.open_ids):
        found[:, i] = open_ids[0]
    found[:, list(model.columns)] = ids
    return found


def _free(pool: Ints, knowledge: Knowledge, taken: Set[Configuration]) -> Ints:
    """Return the distinct rows that are allowed and not taken, in their order."""
    lineage, space = knowledge.space.lineage, knowledge.space
    seen: dict[tuple[int, ...], None] = dict.fromkeys(map(tuple, pool.tolist()))
    rows = [
        row
        for row in seen
        if (c := Configuration(row, lineage)) not in taken and space.is_allowed(c)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), pool.shape[1])


def _numbers(space: ParameterSpace, ids: Ints) -> Ints:
    """Return the place of level ids [m, d] among the combinations of open levels, -1 outside.

    The number fits, since it is asked for spaces with few allowed configurations only.
    """
    number = np.zeros(len(ids), dtype=np.int64)
    inside = np.ones(len(ids), dtype=np.bool_)
    for column, (parameter, open_ids) in enumerate(
        zip(space.parameters, space.open_ids, strict=True)
    ):
        place = np.full(parameter.n_levels, -1, dtype=np.int64)
        place[list(open_ids)] = np.arange(len(open_ids))
        own = place[ids[:, column]]
        inside &= own >= 0
        number = number * len(open_ids) + own
    return np.where(inside, number, -1)
