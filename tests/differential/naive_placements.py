"""Placement rules thought out from their definitions, over the machines of `naive_instances`.

They share no text with the kernel. Fractions of whole numbers are summed in the order of the
resources, so that who is equal in one is equal in the other.
"""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np

from sim import Scenario

NAMES = ("cpu", "mem", "disk", "gpu")


class Lottery:
    """L'Ecuyer's generator of 1988 with Python's own numbers."""

    def __init__(self, seed: int) -> None:
        first, second = np.random.SeedSequence(seed).generate_state(2)
        self.state = [int(first) % 2_000_000_000 + 1, int(second) % 2_000_000_000 + 1]

    def below(self, n: int) -> int:
        self.state[0] = (40014 * self.state[0]) % (2**31 - 85)
        self.state[1] = (40692 * self.state[1]) % (2**31 - 249)
        drawn = (self.state[0] - self.state[1]) % (2**31 - 86) or 2**31 - 86
        return (drawn - 1) * n // (2**31 - 86)


def capacity(machine: Any) -> list[float]:
    return [*machine.amounts, 1000.0 * machine.n_gpus]


def free(machine: Any) -> list[float]:
    whole = capacity(machine)
    return [whole[r] - sum(p.asks[r] for p in machine.held) for r in range(4)]


def counted(machine: Any) -> list[int]:
    """Resources of which a machine has some, with a limit."""
    return [r for r, amount in enumerate(capacity(machine)) if 0 < amount < math.inf]


class Chooser:
    """Which machine an instance gets under a rule, and which GPU."""

    def __init__(self, scenario: Scenario, machines: list[Any], pods: list[Any]) -> None:
        self.rule, self.machines = scenario.placement, machines
        self.weights = [scenario.options.get(f"{name}_weight", 1.0) for name in NAMES]
        self.balance = scenario.options.get("balance_weight", 1.0)
        self.lottery = Lottery(scenario.seed)
        limited = [[a if a < math.inf else 0.0 for a in capacity(m)] for m in machines]
        self.most = [max(column) for column in zip(*limited, strict=True)]
        self.typical = self._typical(pods, scenario.options.get("typical_share", 0.95))

    @staticmethod
    def _typical(pods: list[Any], share: float) -> list[tuple[Any, int]]:
        """Kinds of pods, commonest first, until they make up the share of all."""
        kinds: dict[Any, Any] = {}
        count: Counter[Any] = Counter()
        for pod in pods:
            kind = (tuple(pod.asks), pod.gpu_resource if pod.asks[3] else None, tuple(pod.terms))
            kinds.setdefault(kind, pod)
            count[kind] += 1
        # Needs of the same count go by their number; drawn with a share of 1 that does not matter.
        chosen, before = [], 0
        for kind, n in count.most_common():
            if before == 0 or before < share * len(pods):
                chosen.append((kinds[kind], n))
            before += n
        return chosen

    def choose(self, pod: Any) -> Any | None:
        able = [m for m in self.machines if m.fits(pod)]
        if not able:
            return None
        if self.rule == "random":
            return able[self.lottery.below(len(able))]
        if self.rule == "first_fit":
            return able[0]
        score: Callable[[Any, Any], Any] = getattr(self, self.rule)
        return min(able, key=lambda m: (score(m, pod), m.number))

    def device(self, machine: Any, pod: Any) -> int | None:
        """The GPU of which the pod gets a part, or None for the first."""
        part, left = pod.asks[3], machine.devices_left()
        if not 0 < part < 1000:
            return None
        able = [d for d, amount in enumerate(left) if amount >= part]
        if self.rule in ("best_fit", "dot_product", "gpu_packing", "gpu_clustering"):
            return min(able, key=lambda d: (left[d], d))
        if self.rule == "worst_fit":
            return min(able, key=lambda d: (-left[d], d))
        if self.rule == "fgd":
            return min(able, key=lambda d: (self.lost(machine, pod, d), d))
        return able[0]

    def best_fit(self, m: Any, pod: Any) -> float:
        left = {r: (free(m)[r] - pod.asks[r]) / self.most[r] for r in counted(m)}
        return add([self.weights[r] * share for r, share in left.items()])

    def worst_fit(self, m: Any, pod: Any) -> float:
        return -self.best_fit(m, pod)

    def busiest_fit(self, m: Any, _pod: Any) -> float:
        shares = [free(m)[r] / capacity(m)[r] for r in counted(m)]
        return add(shares) / len(shares)

    def cosine_similarity(self, m: Any, pod: Any) -> float:
        d = [pod.asks[r] / capacity(m)[r] for r in counted(m)]
        f = [free(m)[r] / capacity(m)[r] for r in counted(m)]
        lengths = add([x * x for x in d]) * add([x * x for x in f])
        return -(dot(d, f) / math.sqrt(lengths)) if lengths > 0 else 0.0

    def perp_distance(self, m: Any, pod: Any) -> float:
        def off(times: int) -> float:
            shares = [(free(m)[r] - times * pod.asks[r]) / capacity(m)[r] for r in counted(m)]
            mean = add(shares) / len(shares)
            return math.sqrt(add([(x - mean) * (x - mean) for x in shares]))

        return off(1) - off(0)

    def least_allocated(self, m: Any, pod: Any) -> float:
        return -self.kube(m, pod, lambda used: 1 - used)

    def most_allocated(self, m: Any, pod: Any) -> float:
        return -self.kube(m, pod, lambda used: used)

    def kube(self, m: Any, pod: Any, good: Callable[[Fraction], Fraction]) -> float:
        """NodeResourcesFit and NodeResourcesBalancedAllocation, in fractions of whole numbers."""
        used = {
            r: 1 - Fraction(int(free(m)[r] - pod.asks[r]), int(capacity(m)[r]))
            for r in counted(m)
            if r != 3 or pod.asks[3] > 0
        }
        weights = [Fraction(self.weights[r]) for r in used]
        percent = [math.floor(100 * good(share)) for share in used.values()]
        fit = math.floor(sum(map(mul, weights, percent)) / sum(weights)) if sum(weights) else 0
        apart = abs(float(used[0]) - float(used[1])) / 2 if {0, 1} <= set(used) else 0.0
        return fit + self.balance * math.floor(100 * (1 - apart))

    def tetris(self, m: Any, pod: Any) -> float:
        d = [pod.asks[r] / capacity(m)[r] for r in counted(m)]
        return -dot(d, [free(m)[r] / capacity(m)[r] for r in counted(m)])

    def dot_product(self, m: Any, pod: Any) -> float:
        d = [pod.asks[r] / self.most[r] for r in counted(m)]
        return dot(d, [free(m)[r] / self.most[r] for r in counted(m)])

    def gpu_packing(self, m: Any, pod: Any) -> tuple[int, float]:
        part, left = pod.asks[3], m.devices_left()
        if part == 0:
            return (0, 0)
        in_use = [amount for amount in left if part <= amount < 1000]
        if not any(amount < 1000 for amount in left):
            return (2, m.n_gpus)
        return (0, min(in_use)) if part < 1000 and in_use else (1, 0)

    def gpu_clustering(self, m: Any, pod: Any) -> tuple[int, float]:
        def kind(one: Any) -> int:
            return int(one.asks[3]) if one.asks[3] >= 1000 else 1

        if pod.asks[3] == 0:
            return (0, 0)
        kinds = {kind(other) for other in m.held if other.asks[3]}
        if kind(pod) in kinds:
            return (0 if len(kinds) == 1 else 1, sum(m.devices_left()))
        return (3 if kinds else 2, sum(m.devices_left()))

    def fgd(self, m: Any, pod: Any) -> int:
        device = self.device(m, pod)
        return self.lost(m, pod, device) - self.lost(m, None, None)

    def lost(self, m: Any, pod: Any | None, device: int | None) -> int:
        """Thousandths of GPUs that typical pods cannot use if a pod more is there."""
        left, room = m.devices_left(), free(m)
        if pod is not None:
            room = [room[r] - pod.asks[r] for r in range(4)]
            if device is not None:
                left[device] -= pod.asks[3]
            elif pod.asks[3]:
                for d, _ in m.devices_for(pod.asks[3]):
                    left[d] = 0
        total = 0
        for other, n in self.typical:
            asks = other.asks[3]
            each = min(asks, 1000)
            able = [amount for amount in left if amount >= each]
            can = (
                asks > 0
                and all(room[r] >= other.asks[r] for r in range(3))
                and len(able) >= max(asks // 1000, 1)
                and suits(m, other)
            )
            total += n * (sum(a for a in left if a < each) if can else sum(left))
        return total


def suits(machine: Any, pod: Any) -> bool:
    """Whether labels and GPUs are of the kind that a pod asks for, whatever there is room for."""
    held, machine.held = machine.held, []
    amounts, machine.amounts = machine.amounts, [math.inf] * 3
    n_gpus, machine.n_gpus = machine.n_gpus, 1024
    try:
        return bool(machine.fits(pod, empty=True))
    finally:
        machine.held, machine.amounts, machine.n_gpus = held, amounts, n_gpus


def add(numbers: list[float]) -> float:
    """Sum from left to right, which `sum` does not since Python 3.12."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def dot(a: list[float], b: list[float]) -> float:
    return add([x * y for x, y in zip(a, b, strict=True)])
