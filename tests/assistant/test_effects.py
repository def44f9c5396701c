"""Effects of an experiment, in the sign and unit of what is measured, and their charts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
import vl_convert

from assistant import (
    Constraint,
    Experiment,
    Fact,
    Measure,
    Objective,
    Session,
    SingleMeasure,
    open_session,
)
from assistant.analysis.effects import ParameterRange, effects_report, missing_report
from assistant.core.errors import ExperimentError, RunError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.effects import (
    MOST_LINES,
    CombinationChange,
    LevelChange,
    half_normal,
    interaction,
    main_effects,
    pareto,
)
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.presentation.tables.effects import effect_sentences, effects_section, ranking_of
from assistant.store.event_store import MemoryStore
from benchmarks.ranking import judged, swept
from strategies import Level, Parameter, ParameterSpace
from strategies.doe.coverage import EstimationTarget
from strategies.doe.factorial_model import all_pairs
from strategies.doe.linear_model import Margins
from tests.assistant.examples import Bowl, TickingClock


@dataclass(frozen=True)
class Product:
    """wait_s = 10 + 4 a + 2 b + a b, with a and b at -1 and 1; c does nothing, and fails at 9."""

    goal: str = "minimise"

    name = "product"
    space = ParameterSpace(
        (
            Parameter("a", (-1, 1), unit="procs"),
            Parameter("b", (-1, 1)),
            Parameter("c", ("x", "y", "z")),
        )
    )
    facts = (Fact("Product", "a known function"),)
    baseline = None

    @property
    def objective(self) -> Objective:
        bound = Constraint("wait_s", at_most=12.0)
        return Objective(SingleMeasure("wait_s"), self.goal, (bound,), unit="s")  # type: ignore[arg-type]

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        a, b = int(values["a"]), int(values["b"])
        if values["c"] == "z":
            raise RunError("z does not work")
        return {"wait_s": 10.0 + 4 * a + 2 * b + a * b}


def run_all(application: Product, cells: str = "all") -> Session:
    """Run every combination of a and b at c=x, and some of c=y."""
    session = open_session(application, store=MemoryStore(), clock=TickingClock())
    for a in (-1, 1):
        for b in (-1, 1):
            session.include({"a": a, "b": b, "c": "x"})
    if cells == "all":
        session.include({"a": 1, "b": 1, "c": "y"})
        session.include({"a": -1, "b": 1, "c": "y"})
        session.include({"a": -1, "b": 1, "c": "z"})
    session.run_queued(SerialExecutor(application))
    return session


@pytest.mark.parametrize(("goal", "verdict"), [("minimise", "worse"), ("maximise", "better")])
def test_changes_have_the_sign_of_the_measure_and_the_verdict_that_of_the_goal(
    goal: str, verdict: str
) -> None:
    experiment = run_all(Product(goal)).experiment
    report = effects_report(experiment)
    assert (report.unit, report.goal, report.n_runs) == ("s", goal, 6)  # infeasible ones too
    a, b, c = report.main
    low, high = a.levels
    assert low.levels == (-1,)
    assert high.change == -(low.change or 0)
    assert high.change is not None
    assert high.change > 3
    assert high.verdict == verdict
    assert high.low is not None
    assert high.high is not None
    assert high.low < high.change < high.high
    # a x b is not in the model: 1 each, so it is what the error holds; c has no run of z
    assert [one.change is None for one in c.levels] == [False, False, True]
    assert c.test.f is not None
    assert c.test.f < 1
    assert {contrast.name for contrast in report.contrasts} == {"a", "b", "c"}
    assert report.contrasts[0].name == "a"
    assert report.contrasts[0].effect > 0
    assert b.unit == ""


def test_an_interaction_is_named_with_what_it_adds() -> None:
    experiment = run_all(Product(), "few").experiment
    report = effects_report(experiment, (("a", "b"),))
    (pair,) = report.interactions
    assert pair.parameters == ("a", "b")
    assert [c.change for c in pair.combinations] == pytest.approx([-5, -3, 1, 7])
    assert [c.change for c in pair.beyond] == pytest.approx([1, -1, -1, 1])
    assert [e.change for e in report.main[0].levels] == pytest.approx([-4, 4])
    assert {c.name: c.effect for c in report.contrasts} == pytest.approx(
        {"a": 8, "b": 4, "a x b": 2}
    )
    assert report.error.mean_square is None
    assert "c: a single level has runs" in str(report.main[2].test.reason)
    assert report.main[0].levels[0].low is None
    assert report.tests[-1].parameters == ("a", "b")


def test_no_run_and_one_run_are_sentences() -> None:
    session = open_session(Product(), store=MemoryStore(), clock=TickingClock())
    empty = effects_report(session.experiment, all_pairs(session.experiment.space))
    assert empty.error.reason == "There is no run yet."
    assert effects_section(session.experiment) is None
    session.include({"a": 1, "b": 1, "c": "x"})
    session.run_queued(SerialExecutor(Product()))
    section = effects_section(session.experiment)
    assert section is not None
    assert section.figures == ()
    assert dict(section.unknown)["a"] == "a: a single level has runs"
    page = render_html(collect(session.experiment))
    assert "a single level has runs" in page


def missing(experiment: Experiment, *names: str) -> list[dict[str, Level]]:
    return list(missing_report(experiment, EstimationTarget(names)).runs)


def test_missing_runs_are_values_that_can_be_included_and_then_nothing_is_missing() -> None:
    session = run_all(Product(), "few")
    found = missing(session.experiment, "c")
    assert [values["c"] for values in found] == ["y", "z"]
    for values in found:
        session.include(values)
    # they wait, and count as if they were over
    report = missing_report(session.experiment, EstimationTarget(("c",)))
    assert (report.runs, report.missing.n_waiting) == ((), 2)
    session.run_queued(SerialExecutor(Product()))
    (again,) = missing(session.experiment, "c")  # z has failed there, so at another place
    assert again["c"] == "z"
    assert again not in found


def test_missing_runs_stay_out_of_closed_levels_and_suggestions_may_be_offered() -> None:
    session = run_all(Product(), "few")
    session.close_level("c", "z")
    assert [values["c"] for values in missing(session.experiment, "c")] == ["y"]
    session.suggest(4)
    assert [values["c"] for values in missing(session.experiment, "c")] == ["y"]
    session.close_level("c", "y")
    with pytest.raises(ExperimentError, match="a single open level, so there is no effect"):
        missing(session.experiment, "c")


def test_the_nearest_block_comes_with_it() -> None:
    session = run_all(Product(), "few")
    report = missing_report(session.experiment, EstimationTarget(("a", "b")))
    assert report.missing.lacking == 0
    assert report.block is not None
    assert report.block_runs == ()
    more = missing_report(session.experiment, EstimationTarget(("a", "c")))
    assert more.block is not None
    assert len(more.block_runs) == 4  # two levels of c more, at both of a


def test_the_report_draws_effects_and_says_what_they_rest_on() -> None:
    data = collect(run_all(Product()).experiment)
    assert data.effects is not None
    assert [figure.parameter for figure in data.effects.figures][:2] == ["a", "b"]
    assert [change.level for change in data.effects.figures[0].levels] == ["-1", "1"]
    page = render_html(data)
    for text in ("What matters", "half-normal quantile", "F = ",
                 "the pseudo standard error", "Each run predicted from the others"):  # fmt: skip
        assert text in page
    assert "change of wait_s [s]" in page


def test_sentences_name_what_is_missing() -> None:
    told = " ".join(effect_sentences(effects_report(run_all(Product(), "few").experiment)))
    assert "no configuration was run twice" in told
    assert "Lenth's margins need 3 or more estimable contrasts" in told
    bowl = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    assert "There is no run yet." in effect_sentences(effects_report(bowl.experiment))


def ranking_sentence(*ranges: tuple[str, float | None, float | None, float | None]) -> str:
    """Return the sentence on parameters with these names, ranges and interval ends."""
    report = effects_report(run_all(Product()).experiment)
    entries = [ParameterRange(*entry, 2, 2, 6) for entry in ranges]
    main = tuple(replace(report.main[0], parameter=e.parameter, range=e) for e in entries)
    return ranking_of(replace(report, main=main, unit="", value_name="loss")).sentence


def test_the_headline_is_the_range_with_its_interval() -> None:
    assert ranking_sentence(
        ("lr", 0.4523, 0.41, 0.49), ("dropout", 0.3, 0.27, 0.33), ("opt", 0.15, 0.12, 0.18),
        ("batch", 0.024, 0.0, 0.06), ("seed", None, None, None),
    ) == (
        "lr matters most: its levels differ by 0.452 (95 %: 0.41 to 0.49) in loss; dropout follows "
        "with 0.3. Then opt 0.15, batch 0.024. batch may not matter: chance alone could give as "
        "much. Not known yet: seed."
    )  # fmt: skip


def test_the_headline_says_how_sure_the_first_place_is() -> None:
    close = ranking_sentence(("lr", 0.45, 0.4, 0.5), ("dropout", 0.41, 0.36, 0.46))
    assert close == (
        "lr probably matters most: its levels differ by 0.45 (95 %: 0.4 to 0.5) in loss; dropout "
        "follows with 0.41. dropout may matter as much."
    )
    untold = ranking_sentence(
        ("lr", 0.45, 0.2, 0.7), ("opt", 0.41, 0.1, 0.7), ("batch", 0.3, 0.0, 0.6),
        ("seed", 0.02, 0.0, 0.1),
    )  # fmt: skip
    assert untold.endswith(
        " opt may matter as much. batch may matter as much or not at all: these runs cannot tell. "
        "seed may not matter: chance alone could give as much."
    )
    noise = ranking_sentence(("lr", 0.45, 0.0, 2.0))
    assert noise == (
        "lr comes first, but noise could make it: its levels differ by 0.45 (95 %: 0 to 2) in loss."
    )
    assert ranking_sentence(("lr", 2.0, 2.0, 2.0)) == (
        "lr matters most: its levels differ by 2 in loss."
    )
    assert ranking_sentence(("lr", 0.0, 0.0, 0.0)) == "No parameter changes loss in these runs."
    assert ranking_sentence(("lr", None, None, None)).startswith("No effect on loss is known")


def test_the_sentence_names_interactions_as_a_cause_of_wide_intervals() -> None:
    report = effects_report(run_all(Product()).experiment)
    for p, ending in ((0.01, "which widens these intervals: look at pairs."), (0.2, "")):
        judged = replace(report, lack_of_fit=replace(report.lack_of_fit, p=p))
        sentence = ranking_of(judged).sentence
        assert ("Parameters interact" in sentence) is bool(ending)
        assert ending in sentence


@pytest.mark.parametrize("seed", range(2))
def test_an_adaptive_sweep_finds_the_true_order_and_ranges(seed: int) -> None:
    found = judged(swept("few", seed), "few")
    assert found["ordered"], found["sentence"]
    missed = [name for name, entry in found["parameters"].items() if not entry["holds"]]
    assert len(missed) <= 1, found


MARGINS = Margins(1.0, 2.5, 5.0)
CONTRASTS = effects_report(run_all(Product()).experiment).contrasts


def drawn(spec: Mapping[str, object]) -> str:
    json.dumps(spec)  # plain values only
    return str(vl_convert.vegalite_to_svg(dict(spec)))


def test_charts_show_names_intervals_and_margins() -> None:
    levels = [LevelChange("1", -2.0, -3.0, -1.0, 4), LevelChange("2", 2.0, None, None, 1)]
    svg = drawn(main_effects(levels, "size", "procs", "change of wait_s [s]"))
    assert "size [procs]" in svg
    assert "change of wait_s [s]" in svg
    pairs = [CombinationChange(f, s, 1.0, 1) for f in "ab" for s in "0123456789"]
    spec = interaction(pairs, "first", "second", "change")
    assert len({row["second"] for row in spec["data"]["values"]}) == MOST_LINES
    assert "second" in drawn(spec)
    svg = drawn(pareto(CONTRASTS, MARGINS, "effect"))
    for text in ("one by one (ME)", "all at once (SME)", ">a<", "raises it"):
        assert text in svg
    assert "(ME)" not in drawn(pareto(CONTRASTS, Margins(None, None, None, "few"), "effect"))
    points = effects_report(run_all(Product()).experiment).half_normal
    svg = drawn(half_normal(points, MARGINS, "effect"))
    assert ">a<" in svg  # beyond the margin, so it carries its name
    assert ">c<" not in svg


def test_what_has_no_effect_beyond_noise_is_named_with_its_bound() -> None:
    report = effects_report(run_all(Product()).experiment)
    entries = [
        ParameterRange("lr", 0.45, 0.41, 0.49, 2, 2, 6),
        ParameterRange("log", 0.024, 0.0, 0.06, 2, 2, 6),
        ParameterRange("seed", None, None, None, 2, 2, 6),
    ]
    main = tuple(replace(report.main[0], parameter=e.parameter, range=e) for e in entries)
    ranking = ranking_of(replace(report, main=main, unit="", value_name="loss"))
    assert ranking.unsure == "No effect beyond noise: log (at most 0.06). Not known yet: seed."


def test_a_parameter_that_may_matter_as_much_is_not_called_without_effect() -> None:
    report = effects_report(run_all(Product()).experiment)
    entries = [
        ParameterRange("first", 1.0, 0.2, 1.8, 2, 2, 6),
        ParameterRange("rival", 0.8, 0.0, 1.6, 2, 2, 6),
        ParameterRange("tiny", 0.05, 0.0, 0.06, 2, 2, 6),
    ]
    main = tuple(replace(report.main[0], parameter=e.parameter, range=e) for e in entries)
    ranking = ranking_of(replace(report, main=main, unit="", value_name="loss"))
    assert ranking.unsure == (
        "Not told apart yet: rival may matter as much. No effect beyond noise: tiny (at most 0.06)."
    )
