"""What varies beside the split: options of policies as parameters, and no scenario twice."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.applications.scheduling_parameters import every_option, optional_parameters
from assistant.core.errors import ApplicationError, RunError
from sim import SimError, Workload, simulation
from sim.api import backfills_for, known_names, known_options
from sim.policies import backfills
from sim.policies.backfills import backfill_named
from strategies import Level, StrategyError


def workload() -> Workload:
    return Workload.from_arrays(
        submit_s=np.arange(6, dtype=float),
        runtime_s=np.array([100.0, 100.0, 10.0, 50.0, 20.0, 5.0]),
        procs=np.array([6, 4, 1, 2, 2, 1]),
        requested_s=np.array([100.0, 100.0, 10.0, 40.0, 20.0, 5.0]),
        user=[1, 2, 1, 3, 2, 1],
        name="by hand",
        max_procs=8,
    )


JOBS = workload()


def one_partition(**more: object) -> Scheduling:
    return Scheduling(JOBS, split=False, **more)  # type: ignore[arg-type]


def digests(application: Scheduling) -> list[str]:
    space = application.space
    return [application.scenario(space.values(one)).digest for one in space.configurations()]


# -- what an option of one rule means in a run with another ----------------------------------------


def test_an_option_has_one_level_where_no_policy_knows_it() -> None:
    """Three depths for `depth`, and one for each of the two rules that have none: 3 + 2 of 9."""
    levels = {"backfill": ("easy", "depth", "greedy"), "depth": (1, 4, 16)}
    application = one_partition(levels=levels)
    assert application.space.size == 9
    assert application.space.count_allowed() == 5
    assert application.baseline == {"backfill": "easy", "depth": 4}
    assert len(set(digests(application))) == 5


def test_the_options_of_two_rules_beside_each_other() -> None:
    """`depth`: 2 depths; `easy`: 2 x 2 switches; `none`: 1. 7 of the 3 x 2 x 2 x 2 = 24."""
    levels = {
        "backfill": ("easy", "depth", "none"), "depth": (2, 8),
        "extra_processors": (0, 1), "reserve_anew": (0, 1),
    }  # fmt: skip
    application = one_partition(levels=levels)
    assert (application.space.size, application.space.count_allowed()) == (24, 7)
    assert application.baseline["depth"] == 2, "4 is no level, and today no rule knows it"
    assert len(set(digests(application))) == 7


def test_an_option_that_two_rules_know_means_something_with_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two levels for each of two rules, one for that which has no such option: 5 of 6."""
    also = replace(backfill_named("easy"), name="easy_too")
    for module in (simulation, backfills):
        monkeypatch.setattr(module, "BACKFILLS", (*backfills.BACKFILLS, also))
    levels = {"backfill": ("none", "easy", "easy_too"), "reserve_anew": (1, 0)}
    application = one_partition(levels=levels)
    assert application.space.count_allowed() == 5 == len(set(digests(application)))
    assert "of backfill 'easy' and backfill 'easy_too'" in (
        application.space.parameter("reserve_anew").description
    )


def test_a_policy_is_told_what_it_knows_and_nothing_else() -> None:
    levels = {"backfill": ("easy", "depth")}
    application = one_partition(levels=levels, options={"depth": 9, "reserve_anew": 0})
    assert application.scenario({"backfill": "depth"}).options == {"depth": 9.0}
    assert application.scenario({"backfill": "easy"}).options == {"reserve_anew": 0.0}
    usual = one_partition(levels=levels, options={"depth": 4})
    assert usual.scenario({"backfill": "depth"}) == one_partition(levels=levels).scenario(
        {"backfill": "depth"}
    )


def test_an_option_is_what_the_simulator_is_told() -> None:
    application = one_partition(
        current_policies=CurrentPolicies(backfill="depth"), levels={"depth": (0, 1, 4)}
    )
    waits = [application.evaluate({"depth": k}, 0)["mean_wait_s"] for k in (0, 1)]
    named = [
        one_partition(
            current_policies=CurrentPolicies(backfill=rule), levels={"order": ("fcfs", "sjf")}
        ).evaluate({"order": "fcfs"}, 0)["mean_wait_s"]
        for rule in ("greedy", "easy")
    ]
    assert waits == named


def test_grace_means_something_where_jobs_are_killed() -> None:
    """Job 4 outlives its 40 s by 10: killed with no grace or 5 s, and not with 10 s."""
    levels = {"overrun": ("raise", "kill"), "grace_s": (0, 5, "10s")}
    application = one_partition(levels=levels)
    assert application.space.count_allowed() == 1 + 3
    assert application.baseline == {"overrun": "raise", "grace_s": 0}
    killed = [
        application.evaluate({"overrun": "kill", "grace_s": s}, 0)["n_killed"] for s in (0, 5, 10)
    ]
    assert killed == [1.0, 1.0, 0.0]
    assert application.evaluate(application.baseline, 0)["n_killed"] == 0.0


def test_todays_grace_and_options_are_told() -> None:
    application = one_partition(
        overrun="kill", grace_s=10.0, options={"reserve_anew": 0},
        levels={"order": ("fcfs", "sjf")},
    )  # fmt: skip
    assert application.evaluate(application.baseline, 0)["n_killed"] == 0.0
    (baseline,) = [fact.text for fact in application.facts if fact.label == "Current configuration"]
    assert baseline.endswith("backfill easy, reserve_anew 0, grace 10 s")


NAMES = known_names()


def some(*values: Level) -> st.SearchStrategy[tuple[Level, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)


OPTIONS = {"depth": (0, 1, 4, 16), "actual_times": (0, 1), "extra_processors": (0, 1)}


@st.composite
def applications(draw: st.DrawFn) -> Scheduling:
    """Some orders, rules and ways to overrun, today's among them, and options of some rules."""
    levels: dict[str, tuple[Level, ...]] = {}
    levels["order"] = draw(some(*NAMES["order"]))
    levels["backfill"] = draw(some("easy", "depth", *backfills_for("processors")))
    levels["overrun"] = draw(some("raise", "kill", "extend"))
    baseline = {name: draw(st.sampled_from(given)) for name, given in levels.items()}
    known = {
        option.name: option.usual
        for rule in levels["backfill"]
        for option in known_options("backfill", str(rule))
    }
    for name, values in OPTIONS.items():
        if name in known and draw(st.booleans()):
            levels[name] = tuple(dict.fromkeys((known[name], *draw(some(*values)))))
    if "kill" in levels["overrun"] and draw(st.booleans()):
        levels["grace_s"] = (0, *draw(some(5, 60)))
    names = draw(st.permutations(list(levels)))
    return one_partition(
        levels={name: levels[name] for name in names},
        current_policies=CurrentPolicies(str(baseline["order"]), str(baseline["backfill"])),
        overrun=baseline["overrun"],
    )


@settings(max_examples=50)
@given(applications())
def test_each_scenario_is_one_allowed_configuration(application: Scheduling) -> None:
    """No two allowed configurations are one scenario, and none of the product is lost."""
    space = application.space
    allowed = digests(application)
    assert len(set(allowed)) == len(allowed) == space.count_allowed()
    product = {
        application.scenario(space.values(space.configuration(i))).digest for i in range(space.size)
    }
    assert product == set(allowed)
    space.check(space.from_values(application.baseline))


# -- what is registered can be varied --------------------------------------------------------------


def test_every_option_that_is_declared_can_be_opened_by_its_name() -> None:
    for kind in ("order", "backfill"):
        for policy in NAMES[kind]:
            for option in known_options(kind, policy):  # type: ignore[arg-type]
                baseline = CurrentPolicies(**{kind: policy})
                levels = tuple(sorted({option.usual, max(option.lowest, 0.0), 1.0}))
                counts = kind == "order" or policy in backfills_for("processors")
                given = {} if counts else {"allocation": "whole_nodes", "machine_procs": 1}
                opened = {option.name: levels} | ({option.needs: (0, 5)} if option.needs else {})
                now = {option.needs: 5} if option.needs else {}
                application = one_partition(
                    current_policies=baseline, levels=opened, options=now, **given
                )
                parameter = application.space.parameter(option.name)
                assert option.summary in parameter.description
                assert application.baseline == {option.name: option.usual, **now}


def test_what_can_be_opened_says_what_it_is() -> None:
    found = {
        one.name: one for one in optional_parameters({"order": ("fcfs",), "backfill": ("easy",)})
    }
    assert list(found)[:5] == ["procs", "order", "backfill", "overrun", "dependencies"]
    assert (found["extra_processors"].choices, found["extra_processors"].usual) == ((0, 1), 1)
    assert found["order"].usual is None
    assert found["order"].choices == NAMES["order"]
    assert "depth" not in found
    assert "depth" in every_option()
    assert all(one.description for one in found.values())


# -- whole machines --------------------------------------------------------------------------------


def test_a_cluster_of_machines_is_split_between_them() -> None:
    application = Scheduling(JOBS, machine_procs=2, allocation="whole_nodes", too_wide="clip")
    assert application.space.parameters[0].levels == (0, 2, 4)
    scenario = application.scenario(dict(application.baseline) | {"small_procs": 4})
    assert [part.n_machines for part in scenario.cluster.partitions] == [2, 2]
    assert scenario.allocation == "whole_nodes"
    (cluster,) = [fact.text for fact in application.facts if fact.label == "Cluster"]
    assert cluster == "8 processors in 4 machines; a job gets whole nodes"


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"levels": {"depth": (1, 4)}}, "option of backfill 'depth', which no run uses"),
        ({"options": {"depth": 4}}, "option of backfill 'depth', which no run uses"),
        ({"options": {"dept": 4}}, "no policy has an option 'dept'; did you mean 'depth'"),
        ({"options": {"reserve_anew": 2}}, "'reserve_anew' of backfill 'easy' is 2; allowed"),
        ({"levels": {"reserve_anew": (0, 0.5)}}, "is 0.5; allowed are whole numbers from 0 to 1"),
        ({"levels": {"reserve_anew": (0, "x")}}, "is 'x'; allowed are whole"),
        ({"levels": {"extra_processors": (0,)}}, "the current extra_processors, 1, is not among"),
        ({"levels": {"order": ("sjf", "ljf")}}, "the current order, fcfs, is not among its levels"),
        ({"levels": {"grace_s": (0, 60)}}, "no run kills jobs .overrun is raise"),
        ({"grace_s": 60.0}, "no run kills"),
        ({"levels": {"overrun": ("raise", "kil")}}, "'kil'; did you mean 'kill'"),
        ({"overrun": "kill", "levels": {"grace_s": (0, "soon")}}, "level 'soon'"),
        ({"levels": {"small_procs": (0, 2)}}, "only one partition"),
        ({"levels": {}}, "no parameter varies"),
        ({"levels": {"order": ()}}, "no parameter varies"),
        ({"allocation": "whole_nodes"}, "set machine_procs"),
        ({"machine_procs": 0}, "machine_procs is 0"),
        ({"machine_procs": 3}, "not a whole number of machines of 3"),
        ({"machine_procs": 2, "levels": {"procs": (8, 9)}}, "multiples of machine_procs"),
        (
            {"machine_procs": 2, "allocation": "whole_nodes", "levels": {"backfill": ("depth",)}},
            "cannot decide with allocation='whole_nodes'",
        ),
        ({"preset": "polices"}, "no preset 'polices'; did you mean 'policies'"),
    ],
)  # fmt: skip
def test_what_cannot_be_varied_is_refused_in_one_sentence(more: dict, words: str) -> None:
    more = {"levels": {"order": ("fcfs", "sjf")}} | more
    with pytest.raises((ApplicationError, SimError), match=words) as caught:
        one_partition(**more).space  # noqa: B018 - the space is built
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, RunError | StrategyError)
