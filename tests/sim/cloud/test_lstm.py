"""The LSTM networks: NumPy beside a naive reference and beside PyTorch, calibration, training.

What needs PyTorch (extra ``neural``) skips where it is absent.
"""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sim.generators.cloud.batches import batches_of
from sim.generators.cloud.flavours import tokens_of
from sim.generators.cloud.lstm import (
    NO_SCORE,
    LstmFlavours,
    LstmLifetimes,
    LstmNetwork,
    LstmScore,
    calibrate_ends,
    day_codes,
    flavour_codes,
    flavour_encoders,
    lifetime_codes,
    lifetime_encoders,
)
from sim.generators.cloud.lstm_training import (
    LSTM_KNOBS,
    TrainingPlan,
    TrainingSeries,
    hazard_nll,
    train,
)
from sim.generators.cloud.model_parts import encode_flavours, encode_parts, model_parts_of
from sim.generators.cloud.three_stage import FOR_ALL, FOR_BATCHES, _poor_fit, draw_batches
from sim.generators.generator import (
    FitWatch,
    Model,
    RandomStreams,
    fit,
    generate,
    load_model,
    save_model,
)
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import WorkloadError
from tests.sim.cloud.test_qualities import DAY_S, a_log
from tests.sim.cloud.test_stages import trace_of

SMALL = TrainingPlan(
    layers=2, units=12, epochs=4, rate=0.02, decay=0.0, sequence=20, minibatch=8, patience=4, seed=1
)


def network_of(encoders: tuple[np.ndarray, ...], n_outputs: int, units: int = 6) -> LstmNetwork:
    """Return two layers with random weights."""
    rng = np.random.default_rng(7)

    def some(*shape: int) -> np.ndarray:
        return rng.normal(0.0, 0.6, shape).astype(np.float32)

    widths = (sum(one.shape[1] for one in encoders), units)
    return LstmNetwork(
        encoders, tuple(some(4 * units, width) for width in widths),
        tuple(some(4 * units, units) for _ in widths), tuple(some(4 * units) for _ in widths),
        some(n_outputs, units), some(n_outputs),
    )  # fmt: skip


def naive_scores(network: LstmNetwork, codes: np.ndarray, sequence: int) -> np.ndarray:
    """Return the scores by the textbook, one number at a time."""
    scores, n = [], network.n_units
    for at, row in enumerate(codes):
        if at % sequence == 0:
            own = [[0.0] * n for _ in network.inputs]
            cell = [[0.0] * n for _ in network.inputs]
        x = [v for enc, code in zip(network.encoders, row, strict=True) for v in enc[code].tolist()]
        for layer in range(len(network.inputs)):
            gate = []
            for k in range(4 * n):
                gate.append(
                    float(network.biases[layer][k])
                    + product(network.inputs[layer][k], x)
                    + product(network.recurrent[layer][k], own[layer])
                )
            for k in range(n):
                i, f, o = (1 / (1 + math.exp(-gate[k + place * n])) for place in (0, 1, 3))
                cell[layer][k] = f * cell[layer][k] + i * math.tanh(gate[k + 2 * n])
                own[layer][k] = o * math.tanh(cell[layer][k])
            x = own[layer]
        scores.append(
            [
                float(network.output_bias[k]) + product(network.output[k], x)
                for k in range(len(network.output_bias))
            ]
        )
    return np.array(scores)


def product(weights: np.ndarray, values: list[float]) -> float:
    """Return the sum of the products of two lists."""
    return sum(w * v for w, v in zip(weights.tolist(), values, strict=True))


def test_scores_are_those_of_the_textbook() -> None:
    encoders = lifetime_encoders(3, 4, 5)
    network = network_of(encoders, 5)
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, len(one), 23) for one in encoders])
    told = network.scores(codes, 10)  # sequences of 10, 10 and 3
    assert told == pytest.approx(naive_scores(network, codes, 10), abs=1e-5)


def test_codes_and_features_by_hand() -> None:
    trace = trace_of([[0, 1], [2]], [3, 1, 0], censored=(1,))
    tokens = tokens_of(trace)
    day = np.zeros(len(tokens.token), dtype=np.int64)
    assert flavour_codes(tokens, day, 1)[:, 0].tolist() == [3, 0, 1, 3, 2]
    codes = lifetime_codes(trace, day[:3], 1)
    n_bins = trace.bins.n
    assert codes[:, 4].tolist() == [1, 1, 0], "classes of batch sizes"
    assert codes[:, 5].tolist() == [2 * n_bins, 3, n_bins + 1], "none, ended in 3, last seen in 1"
    assert codes[:, 6].tolist() == [1, 0, 1]
    state = lifetime_encoders(3, 1, n_bins)[5]
    assert np.flatnonzero(state[3]).tolist() == [0, 1, 2, 3, *range(n_bins + 3, 2 * n_bins)]
    assert np.flatnonzero(state[n_bins + 1]).tolist() == [0, 1]
    assert state[2 * n_bins].sum() == 0
    assert day_codes(np.array([0, 2, 9]), 4).tolist() == [0, 2, 3], "later days are the last"


@cache
def flavours_of() -> LstmFlavours:
    """Return a flavour network that was never trained."""
    trace, _ = batches_of(a_log())
    n = len(trace.flavours)
    network = network_of(flavour_encoders(n, 10), n + 1)
    return LstmFlavours(network, 10, 20, 3.5, 0.0, NO_SCORE, np.ones(n + 1), np.ones(n))


@cache
def lifetimes_of() -> LstmLifetimes:
    trace, _ = batches_of(a_log())
    n, n_bins = len(trace.flavours), trace.bins.n
    network = network_of(lifetime_encoders(n, 10, n_bins), n_bins)
    return LstmLifetimes(network, n, 10, 20, NO_SCORE)


@cache
def model_of() -> Model:
    """Return a model of both networks, never trained, with batches of the right mean size."""
    trace, _ = batches_of(a_log())
    ground = model_parts_of(fit("three_stage", a_log(), {"penalty": 0.1}))
    parameters, arrays = encode_parts(replace(ground, lifetimes=lifetimes_of()))
    more, weights = encode_flavours(calibrate_ends(flavours_of(), trace))
    parameters |= {"quality": "lstm", **FOR_ALL, **FOR_BATCHES, **more}
    return Model("three_stage", parameters, arrays | weights)


def test_an_untrained_network_draws_batches_of_the_right_mean_size() -> None:
    trace, _ = batches_of(a_log())
    plain, calibrated = flavours_of(), calibrate_ends(flavours_of(), trace)
    n, hour = 4000, np.arange(4000) % 168
    day = np.arange(n) % 10
    sizes = [
        len(one.draw(n, np.random.default_rng(3), day, hour)[0]) / n for one in (plain, calibrated)
    ]
    mean = trace.batch_sizes.mean()
    assert abs(sizes[0] / mean - 1) > 0.2, "there is something to calibrate"
    assert sizes[1] == pytest.approx(mean, rel=0.04)


def test_sequences_know_nothing_of_each_other() -> None:
    """A draw is as likely as its own scores say, with a zero state where a sequence begins."""
    model = flavours_of()
    first, n = np.array([0, 40, 90]), 120
    hour = np.arange(n) % 168
    flavour, batch = model.draw_sequences(
        first, n, np.random.default_rng(2), np.full(n, 4), hour, 10**6
    )
    assert np.unique(batch).tolist() == list(range(n)), "no batch is empty"
    again, _ = model.draw_sequences(first, n, np.random.default_rng(2), np.full(n, 4), hour, 10**6)
    assert flavour.tolist() == again.tolist()
    other_day, _ = model.draw_sequences(first, n, np.random.default_rng(2), None, hour, 10**6)
    assert other_day.tolist() != flavour.tolist(), "the day has an effect"
    with pytest.raises(WorkloadError, match="more than 5 jobs would be drawn"):
        model.draw_sequences(first, n, np.random.default_rng(2), None, hour, 5)


def test_drawn_flavours_follow_the_scores() -> None:
    model = replace(flavours_of(), sequence=10**6)
    n = 3000
    zero = np.zeros(n, dtype=np.int64)
    first = np.arange(n)  # each batch begins at a zero state
    flavour, batch = model.draw_sequences(first, n, np.random.default_rng(5), None, zero, 10**6)
    firsts = flavour[np.concatenate([[True], np.diff(batch) > 0])]
    codes = np.array([[model.end, 0, 0, 9]])
    scores = naive_scores(model.network, codes, 10)[0][:-1]
    expected = np.exp(scores) / np.exp(scores).sum()
    seen = np.bincount(firsts, minlength=model.end) / n
    assert seen == pytest.approx(expected, abs=0.03)


def test_the_draw_reads_what_the_scores_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the networks read while they draw is what they read of the trace that came of it."""
    asked: list[list[int]] = []
    plain = LstmNetwork.step

    def noting(self: LstmNetwork, codes: list[np.ndarray], state: object) -> np.ndarray:
        assert len(codes[0]) == 1
        asked.append([int(code[0]) for code in codes])
        return plain(self, codes, state)  # type: ignore[arg-type]

    monkeypatch.setattr(LstmNetwork, "step", noting)
    n, rng = 30, np.random.default_rng(4)
    zero, last = np.zeros(n, dtype=np.int64), np.full(n, 9)
    flavour, batch = replace(flavours_of(), sequence=10**6).draw(n, rng, last, zero)
    n_asked = len(asked)
    lifetime = replace(lifetimes_of(), sequence=10**6).draw(flavour, batch, 4, rng, last, zero)
    drawn = CloudTrace(
        period=np.zeros_like(batch), batch=batch, flavour=flavour, lifetime=lifetime,
        censored=np.zeros_like(batch), flavours=batches_of(a_log())[0].flavours, first_period=0,
        n_periods=1,
    )  # fmt: skip
    tokens = tokens_of(drawn)
    told = flavour_codes(tokens, np.full(len(tokens.token), 9), 10)
    assert asked[:n_asked] == told.tolist()
    told = lifetime_codes(drawn, np.full(drawn.n_jobs, 9), 10)
    assert asked[n_asked:] == told.tolist()


def test_hazard_nll_by_hand() -> None:
    trace = trace_of([[0], [0]], [1, 1], censored=(1,))
    hazard = np.full((1, trace.bins.n), 0.25)
    told = hazard_nll(hazard, np.zeros(2, dtype=np.int64), trace)
    assert told == pytest.approx(-(math.log(0.75 * 0.25) + math.log(0.75)) / 2)


def test_a_model_of_networks_is_kept_and_drawn_without_pytorch(tmp_path: Path) -> None:
    save_model(model_of(), tmp_path / "model.json")
    kept = load_model(tmp_path / "model.json")
    assert kept == model_of()
    drawn = generate(kept, duration_s=DAY_S, seed=3)
    assert drawn == generate(model_of(), duration_s=DAY_S, seed=3)
    assert drawn != generate(kept, duration_s=DAY_S, seed=4)
    trace = draw_batches(kept, 10 * 288, 20 * 288, RandomStreams(5))
    assert trace is not None
    learnt, _ = batches_of(a_log())
    assert trace.batch_sizes.mean() == pytest.approx(learnt.batch_sizes.mean(), rel=0.06)
    slower = generate(kept.with_parameters({"ending_rate": 0.2}), duration_s=DAY_S, seed=3)
    assert slower.runtime_s.mean() > drawn.runtime_s.mean()
    larger = generate(kept.with_parameters({"end_odds": 0.2}), duration_s=DAY_S, seed=3)
    assert larger.n_jobs > drawn.n_jobs


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("lstm_flavours_output", lambda told: told[:-1], "numbers of shape"),
        ("lstm_flavours_0_input", lambda told: told[:, 1:], "numbers of shape"),
        ("lstm_lifetimes_1_recurrent", lambda told: told * np.nan, "has values not from"),
        ("lstm_lifetimes_1_bias", None, "needs the array 'lstm_lifetimes_1_bias'"),
    ],
)
def test_networks_that_cannot_be_are_refused_in_words(name, change, said) -> None:  # type: ignore[no-untyped-def]
    kept = model_of()
    arrays = dict(kept.arrays)
    array = arrays.pop(name)
    if change is not None:
        arrays[name] = change(array.copy())
    with pytest.raises(WorkloadError, match=said):
        generate(Model(kept.generator, kept.parameters, arrays), duration_s=DAY_S, seed=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sequence": 0}, "'sequence' of parameter 'lstm_flavours' of 'three_stage' is 0; allowed"),
        ({"more": 1}, "must have exactly the entries end_bias, held_out_nll"),
    ],
)
def test_parameters_that_cannot_be_are_refused_in_words(change: dict, said: str) -> None:
    kept = model_of()
    told = {**kept.parameters["lstm_flavours"], **change}
    broken = Model(kept.generator, {**kept.parameters, "lstm_flavours": told}, kept.arrays)
    with pytest.raises(WorkloadError, match=said):
        generate(broken, duration_s=DAY_S, seed=1)


def test_a_poor_fit_is_said_in_one_sentence() -> None:
    good, poor = LstmScore(0.6, 0.7), LstmScore(0.81, 0.7)
    said = _poor_fit(replace(flavours_of(), score=poor), replace(lifetimes_of(), score=good))
    assert said.startswith(" Quality 'tables' predicts the held-out last part of the log better")
    assert "of flavours (0.810, tables 0.700): train longer (lstm_epochs)" in said
    assert said.count(".") == 3, "one sentence, two decimal points"
    assert _poor_fit(replace(flavours_of(), score=good), lifetimes_of()) == ""


def test_without_pytorch_a_fit_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(WorkloadError, match=r"pip install 'copperline\[neural\]'; a fitted model"):
        fit("three_stage", a_log(), quality="lstm")


def test_a_checkpoint_is_refused_where_none_is_kept(tmp_path: Path) -> None:
    watch = FitWatch(checkpoint=tmp_path / "c")
    with pytest.raises(WorkloadError, match="quality 'tables' keeps no checkpoint"):
        fit("three_stage", a_log(), watch=watch)
    with pytest.raises(WorkloadError, match="fitting 'naive' keeps no checkpoint"):
        fit("naive", a_log(), watch=watch)


def test_the_usual_plan_has_the_layers_of_the_paper() -> None:
    plan = TrainingPlan.of({})
    assert (plan.layers, plan.units) == (2, 200)
    assert TrainingPlan.of({"lstm_units": 7.0, "lstm_rate": 0.1}).units == 7
    assert len(LSTM_KNOBS) == len(vars(plan))


def a_series(n: int, seed: int) -> TrainingSeries:
    """Return tokens of which each is the one before plus one, or at random."""
    rng = np.random.default_rng(seed)
    tokens = [0]
    for jump, any_one in zip(rng.random(n) < 0.2, rng.integers(0, 4, n), strict=True):
        tokens.append(int(any_one) if jump else (tokens[-1] + 1) % 4)
    zero = np.zeros(n, dtype=np.int64)
    return TrainingSeries(np.column_stack([tokens[:-1], zero, zero, zero]), np.array(tokens[1:]))


def trained(
    watch: FitWatch, plan: TrainingPlan = SMALL, held: TrainingSeries | None = None
) -> LstmNetwork:
    encoders = flavour_encoders(3, 1)
    return train("tokens", encoders, np.zeros(4), a_series(800, 1), held, plan, watch)


def test_numpy_says_what_pytorch_says() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch (extra neural) is not installed")
    encoders = lifetime_encoders(5, 3, 9)
    width = sum(one.shape[1] for one in encoders)
    torch.manual_seed(3)
    lstm, output = torch.nn.LSTM(width, 40, 2, batch_first=True), torch.nn.Linear(40, 9)
    from sim.generators.cloud.lstm_training import network_of as converted

    weights = {f"lstm.{name}": one.detach() for name, one in lstm.named_parameters()}
    weights |= {f"output.{name}": one.detach() for name, one in output.named_parameters()}
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, len(one), 600) for one in encoders])
    features = np.hstack([one[codes[:, place]] for place, one in enumerate(encoders)])
    with torch.no_grad():
        theirs = output(lstm(torch.from_numpy(features).reshape(2, 300, width))[0])
    ours = converted(weights, encoders, 2).scores(codes, 300)
    assert np.abs(ours - theirs.numpy().reshape(600, 9)).max() < 1e-5


def test_training_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch (extra neural) is not installed")
    whole = trained(FitWatch(), held=a_series(200, 2))
    path, said = tmp_path / "checkpoint", []

    class StopError(Exception):
        """Raised by who watches."""

    def stop(words: str) -> None:
        said.append(words)
        if len(said) > 1:
            raise StopError

    from sim.generators.cloud import lstm_training

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm_training, "PROGRESS_S", 0.0)
        patch.setattr(lstm_training, "CHECKPOINT_S", 0.0)
        with pytest.raises(StopError):
            trained(FitWatch(stop, path), held=a_series(200, 2))
    assert said[0].startswith("LSTM, tokens: epoch 1 of 4, ")
    assert said[0].endswith(" min left")
    resumed = trained(FitWatch(checkpoint=path), held=a_series(200, 2))
    for ours, theirs in zip(resumed.recurrent, whole.recurrent, strict=True):
        assert (ours == theirs).all()
    with pytest.raises(WorkloadError, match="belongs to another log or other knobs"):
        trained(FitWatch(checkpoint=path), replace(SMALL, rate=0.01), held=a_series(200, 2))
    path.write_text("no checkpoint")
    with pytest.raises(WorkloadError, match="is not a checkpoint of a training"):
        trained(FitWatch(checkpoint=path))


def test_training_stops_early_and_keeps_the_best_epoch() -> None:
    pytest.importorskip("torch", reason="PyTorch (extra neural) is not installed")
    held = a_series(400, 2)
    plan = replace(SMALL, epochs=400, rate=0.1, units=40, patience=2)
    said: list[str] = []
    network = trained(FitWatch(said.append), plan, held)
    scores = network.scores(held.codes, 20).astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    chance = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    nll = -np.log(chance[np.arange(400), held.outcome]).mean()
    best = -(0.85 * math.log(0.85) + 0.15 * math.log(0.05))
    assert nll < best + 0.25, "a network of the last of 400 epochs knows the training data alone"


def test_a_fit_learns_what_batches_have_in_common() -> None:
    """A network of some seconds' training foresees better than one that knows nothing."""
    pytest.importorskip("torch", reason="PyTorch (extra neural) is not installed")
    knobs = {
        "lstm_units": 24, "lstm_sequence": 40, "lstm_minibatch": 4, "lstm_epochs": 12,
        "lstm_rate": 0.01, "penalty": 0.1,
    }  # fmt: skip
    model = fit("three_stage", a_log(), knobs, quality="lstm")
    again = fit("three_stage", a_log(), knobs, quality="lstm")
    assert model == again, "the same seed trains the same network"
    assert "Fitted to batches: 2,236 jobs" in model.source
    told = model.parameters["lstm_flavours"]
    assert told["held_out_nll"] < 0.7 * math.log(5)
    drawn = draw_batches(model, 10 * 288, 20 * 288, RandomStreams(5))
    trace, _ = batches_of(a_log())
    assert drawn is not None
    assert drawn.batch_sizes.mean() == pytest.approx(trace.batch_sizes.mean(), rel=0.06)
    inside = ~drawn.first_in_batch[1:]
    assert (drawn.flavour[1:] == drawn.flavour[:-1])[inside].mean() > 0.9
