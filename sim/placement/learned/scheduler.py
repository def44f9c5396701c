"""The trained scheduler: an algorithm object that takes the pair with the best score.

It is kept in one npz file: weights, features, and how it was trained. Nothing in the file is
executed when it is read.
"""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import ScenarioError
from sim.model.files import write_atomically
from sim.placement.algorithms import Choice
from sim.placement.learned.brain import LAYERS, Brain
from sim.placement.learned.features import FEATURES, PairReader
from sim.placement.live_cluster import LiveCluster
from sim.policies.pair_network import SAME_SCORE

FORMAT, VERSION = "copperline learned placement", 1
ENDING = ".npz"


@dataclass(frozen=True)
class CurvePoint:
    """Progress of a training at one check.

    Attributes:
        iteration: number of iterations before it.
        objective: mean objective of the greedy policy on the jobs that were held back.
        ratio: mean over the parts of these jobs of the objective over that of first fit.
        entropy: mean entropy of the decisions of the last iteration, in nats.
    """

    iteration: int
    objective: float
    ratio: float
    entropy: float


@dataclass(frozen=True)
class TrainingRecord:
    """How a scheduler was trained.

    Attributes:
        objective: name of its reward giver.
        features: name of its set of features.
        scale_s: unit of times, the mean run time of the training tasks in seconds.
        seed: seed of the training.
        settings: other settings by name.
        trained_on: name of the workload.
        curve: checks during the training, oldest first.
        best_rule: order, rule of who is next and placement of the heuristic that is best on the
            jobs held back, chosen in hindsight; empty if none was compared.
        best_rule_ratio: its objective there, as `CurvePoint.ratio`.
        bound_ratio: value that no schedule can go below there, likewise; None if there is none.
    """

    objective: str
    features: str
    scale_s: float
    seed: int
    settings: dict[str, float] = field(default_factory=dict)
    trained_on: str = ""
    curve: tuple[CurvePoint, ...] = ()
    best_rule: str = ""
    best_rule_ratio: float | None = None
    bound_ratio: float | None = None


class LearnedPlacement:
    """Placement that takes the pair of a task and a machine that its brain scores highest.

    It is an `Algorithm`: give it to `simulate_algorithm`. Of equal scores the first is taken, in
    the order of the ready tasks and of the machines, so that a simulation can be repeated.
    """

    def __init__(self, brain: Brain, record: TrainingRecord) -> None:
        self.brain, self.record = brain, record
        self._reader: PairReader | None = None

    def algorithm(self, cluster: LiveCluster, clock: float) -> Choice:
        """Return the machine and the task of the best pair, or (None, None) without room."""
        if self._reader is None or self._reader.cluster is not cluster:
            self._reader = PairReader(cluster, self.record.features, self.record.scale_s)
        choices = self._reader.choices(clock)
        if choices is None:
            return None, None
        best = self.select(self.brain.scores(choices.features), choices.features, clock)
        task = cluster.ready_tasks[int(choices.tasks[best])]
        return cluster.machines[int(choices.machines[best])], task

    def select(
        self, scores: NDArray[np.float64], features: NDArray[np.float64], clock: float
    ) -> int:
        """Return the pair to take among pairs with these scores: the first of the best."""
        del features, clock
        return int(np.argmax(scores >= scores.max() - SAME_SCORE))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None}

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what it decides by."""
        sha = hashlib.sha256(f"{self.record.features} {self.record.scale_s!r}".encode())
        for array in (self.brain.mean, self.brain.deviation, *self.brain.weights):
            sha.update(array.astype("<f8").tobytes())
        return sha.hexdigest()

    def save(self, path: Path) -> None:
        """Write the scheduler to an npz file, whole or not at all.

        Raises:
            ScenarioError: the name does not end in .npz, or the file cannot be written.
        """
        if path.suffix != ENDING:
            raise ScenarioError(f"{path}: the name of a trained scheduler must end in {ENDING}.")
        write_arrays(path, {"format": FORMAT, "version": VERSION, **asdict(self.record)},
                     brain_arrays(self.brain))  # fmt: skip

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a scheduler that `save` wrote.

        Raises:
            ScenarioError: no such file, or it is not a trained scheduler of this version.
        """
        about, arrays = read_arrays(Path(path), "a trained scheduler", FORMAT, VERSION)
        try:
            curve = tuple(CurvePoint(**point) for point in about.pop("curve"))
            record, brain = TrainingRecord(**about, curve=curve), brain_of(arrays)
            n_features = len(FEATURES[record.features])
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(
                f"{path}: this trained scheduler is damaged ({error}); train it again with "
                "'copperline learn'."
            ) from None
        if brain.weights[1].shape[0] != n_features:
            raise ScenarioError(
                f"{path}: the network has {brain.weights[1].shape[0]} inputs, but there are "
                f"{n_features} features '{record.features}'; train it again."
            )
        return cls(brain, record)


def brain_arrays(brain: Brain) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of a brain by name."""
    return {
        "mean": brain.mean, "deviation": brain.deviation,
        **dict(zip(LAYERS, brain.weights, strict=True)),
    }  # fmt: skip


def brain_of(arrays: dict[str, NDArray[np.float64]]) -> Brain:
    """Return the brain of arrays by name. Raises KeyError or ValueError for others."""
    every = [np.asarray(arrays[name], dtype=np.float64) for name in ("mean", "deviation", *LAYERS)]
    mean, deviation, *weights = every
    direct, into_1, bias_1, into_2, bias_2, out = weights
    n, first, second = len(direct), len(bias_1), len(bias_2)
    shapes = ((n,), (n,), (n,), (n, first), (first,), (first, second), (second,), (second,))
    if tuple(array.shape for array in every) != shapes or into_2.shape[1] != len(out):
        raise ValueError("arrays of other shapes")
    if into_1.ndim != 2 or not all(np.isfinite(array).all() for array in every):
        raise ValueError("numbers that are not finite")
    return Brain(mean, deviation, tuple(weights))


def write_arrays(path: Path, about: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> None:
    """Write arrays and a JSON object to an npz file, whole or not at all."""
    packed = io.BytesIO()
    text = np.array(json.dumps(about))
    np.savez_compressed(packed, allow_pickle=False, about=text, **arrays)
    write_atomically(path, packed.getvalue(), raises=ScenarioError)


def read_arrays(
    path: Path, what: str, form: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Read what `write_arrays` wrote. Raises ScenarioError if it is something else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays.pop("about")))
        is_ours = about.pop("format") == form
        its_version = about.pop("version")
    except FileNotFoundError:
        raise ScenarioError(f"there is no file '{path}'; give {what} (.npz).") from None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile, EOFError):
        is_ours, its_version = False, version
    if not is_ours:
        raise ScenarioError(f"{path}: this is not {what}; give a file of 'copperline learn'.")
    if its_version != version:
        raise ScenarioError(
            f"{path}: version {its_version} of {what} is unknown; this Copperline reads {version}."
        )
    return about, arrays
