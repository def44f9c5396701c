"""What if: the numbers of `View.what_if`, the events of the command line, nothing by accident."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assistant import Experiment, Session, Sla, Tariff, load_session, open_session
from assistant.analysis.what_if import WhatIf, what_if_side
from assistant.cli.main import run
from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession
from assistant.core.codec import encode_event
from assistant.core.events import BudgetChanged, Event, SteeringChanged
from assistant.core.forecast import band_words, percent
from assistant.core.ports import Store
from assistant.executors.serial import SerialExecutor
from assistant.service.api_tokens import Role
from assistant.service.app import make_service
from assistant.service.auth import RoleTokens
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.intents import FormFieldError, Intent
from assistant.ui.pages import what_if
from assistant.ui.pages.what_if_comparison import WhatIfDraft, apply, in_force, parts_of, question
from assistant.ui.state import ExperimentView
from strategies import find_regions, strategy_entry
from tests.assistant.examples import Bowl, Hills, TickingClock
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

PREFIX = "what-if-hills"


class Stopped:
    """A clock that stands: what is computed twice is the same."""

    def now_s(self) -> float:
        return 1_000_100.0


@pytest.fixture(scope="module")
def ran() -> tuple[Event, ...]:
    """Twenty results of a budget of 50, with two regions and a goal that nothing reaches."""
    session = open_session(
        Hills(), store=MemoryStore(), sla=Sla(50, goal=0.0), clock=TickingClock(),
        strategy="copper", experiment_id="hills",
    )  # fmt: skip
    session.submit(session.initial_evaluation(12))
    session.run_queued(SerialExecutor(Hills()))
    session.submit(session.suggest(8))
    session.run_queued(SerialExecutor(Hills()))
    assert (
        len(find_regions(session.experiment.knowledge, session.experiment.warning_policy.regions))
        == 2
    )
    return session.events()


def stored(events: tuple[Event, ...], store: Store | None = None) -> Session:
    kept = MemoryStore() if store is None else store
    kept.append("hills", 0, events)
    return load_session(kept, "hills", clock=Stopped())


@pytest.fixture
def session(ran: tuple[Event, ...]) -> Session:
    return stored(ran)


def at(page: AppTest, name: str) -> str:
    """The key of a field as it is drawn now: fields that are drawn anew have another one."""
    keys = [
        element.key
        for kind in ("number_input", "text_input", "slider", "toggle", "selectbox")
        for element in getattr(page, kind)
        if element.key is not None
    ]
    (key,) = [one for one in keys if one.startswith(PREFIX) and one.split("-", 4)[-1] == name]
    return key


def fill(page: AppTest, **values: object) -> AppTest:
    """Fill fields in, and let the page be drawn."""
    kinds = {"budget": "number_input", "box": "number_input", "share": "slider",
             "split": "toggle", "strategy": "selectbox"}  # fmt: skip
    for name, value in values.items():
        kind = kinds.get(name, "text_input")
        getattr(page, kind)(key=at(page, name)).set_value(value)
        if name == "split":  # what it allows can be filled in afterwards
            page.run()
    page.run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def press(page: AppTest, name: str) -> AppTest:
    page.button(key=f"what-if-{name}").click().run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def tiles(page: AppTest) -> dict[str, tuple[str, str]]:
    return {one.label: (one.value, one.delta) for one in page.metric}


def said(page: AppTest) -> str:
    return " ".join(
        one.value for kind in ("info", "warning", "error", "success", "caption")
        for one in getattr(page, kind)
    )  # fmt: skip


def changes(events: tuple[Event, ...]) -> list[dict[str, object]]:
    told = [json.loads(encode_event(event)) for event in events]
    return [{name: value for name, value in one.items() if name != "at_s"} for one in told]


# -- the same numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ({"budget": 80}, {"max_runs": 80}),
        ({"split": True, "share": 40}, {"exploitation": 0.4}),
        ({"split": True, "box": 25}, {"exploitation": 0.25}),
        ({"goal": "4"}, {"goal": 4.0}),
        ({"goal": ""}, {"goal": "none"}),
        ({"goal": "100"}, {"goal": 100.0}),
        ({"strategy": "grasp"}, {"strategy": "grasp"}),
        ({"deadline": "8s"}, {"deadline_s": 1_000_108.0}),
        ({"budget": 20}, {"max_runs": 20}),
        (
            {"budget": 60, "split": True, "share": 90, "goal": "6.5", "strategy": "random"},
            {"max_runs": 60, "exploitation": 0.9, "goal": 6.5, "strategy": "random"},
        ),
    ],
)
def test_the_numbers_are_those_of_the_command_line(
    session: Session, typed: dict[str, object], asked: dict[str, object]
) -> None:
    page = fill(staged(what_if.page, session), **typed)
    found: WhatIf = session.what_if(**asked)  # type: ignore[arg-type]
    assert found.sentence in page.info[0].value
    shown = tiles(page)
    left = found.after.remaining
    assert left is not None
    assert left.median is not None
    assert shown["Runs to come"] == (f"{left.median:.0f}", "now 30")
    goal = found.after.goal
    if goal is None:
        assert shown["Chance of the goal"][0] == "no goal"
    elif goal.reached_by is not None:
        assert shown["Chance of the goal"][0] == f"reached by run {goal.reached_by}"
    elif found.after.is_over:
        assert shown["Chance of the goal"][0] == "no run left"
    else:
        assert goal.chance is not None
        before = found.before.goal
        assert before is not None
        assert before.chance is not None
        assert shown["Chance of the goal"] == (
            percent(goal.chance), f"now {percent(before.chance)}"
        )  # fmt: skip
    table = page.dataframe[0].value
    then = dict(zip(table[""], table["then"], strict=True))
    into = [int(then[row]) for row in then if row.startswith("Runs: region")]
    assert into == ([one.runs for one in found.inside] or [0, 0])
    assert then["Runs: left to the strategy"] == str(found.outside)


def test_what_a_change_makes_doubtful_is_told(session: Session) -> None:
    found = session.what_if(goal=4.0)
    (caution,) = set(found.after.cautions) - set(found.before.cautions)
    page = staged(what_if.page, session)
    assert caution not in said(page)
    assert f"Caution: {caution}." in said(fill(page, goal="4"))


def test_the_next_suggestions_are_those_that_would_come(session: Session) -> None:
    page = fill(staged(what_if.page, session), budget=80, strategy="random")
    page.toggle(key="what-if-next").set_value(True).run()
    found = session.what_if(max_runs=80, strategy="random").suggestions
    table = next(one.value for one in page.dataframe if "why" in one.value)
    assert list(table["why"]) == [one.reason for one in found]
    assert table["a"].tolist() == [
        str(session.experiment.space.values(one.configuration)["a"]) for one in found
    ]


def test_one_question_of_one_second_is_worked_out_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = []
    work = what_if_side

    def counted(experiment: Experiment, now_s: float) -> object:
        worked.append(experiment.sla.max_runs)
        return work(experiment, now_s)

    monkeypatch.setattr(what_if, "what_if_side", counted)
    page = fill(staged(what_if.page, session), budget=80)
    assert worked == [50, 80]
    page.run()
    fill(page, budget=70)
    fill(page, budget=80)
    assert worked == [50, 80, 70]


# -- states ------------------------------------------------------------------------------------


def test_before_the_first_run_it_is_said_what_is_missing() -> None:
    session = open_session(
        Hills(), store=MemoryStore(), sla=Sla(50, goal=0.0), experiment_id="hills"
    )
    page = staged(what_if.page, session)
    assert list(tiles(page)) == ["Runs to come"]  # nothing else is known
    text = said(page)
    assert "0 runs have ended, and a forecast needs 12" in text
    assert "There is no region yet" in text
    assert "A region contains 3 or more good results" in text
    assert "Good results are the best 30 % of the results. So far 0 of the configurations" in text
    assert page.toggle(key=at(page, "split")).disabled
    assert page.slider(key=at(page, "share")).disabled
    page = fill(page, budget=80)
    assert "The chance is unknown: 0 runs have ended" in page.info[0].value
    assert tiles(page)["Runs to come"] == ("80", "now 50")


def test_with_few_results_nothing_is_foreseen(ran: tuple[Event, ...]) -> None:
    bowl = Bowl(fail_at_x=0)
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(20), clock=TickingClock(), experiment_id="hills"
    )
    session.submit(session.initial_evaluation(6))
    session.run_queued(SerialExecutor(bowl))
    page = fill(staged(what_if.page, session), budget=12)
    assert "No goal is set, and whether the budget suffices is unknown" in page.info[0].value
    assert "a forecast needs 12" in said(page)


def test_without_any_limit_runs_are_not_divided() -> None:
    session = open_session(Hills(), store=MemoryStore(), experiment_id="hills")
    page = staged(what_if.page, session)
    assert "Runs to come" not in tiles(page)
    assert "The number of runs to come is unknown, so they cannot be distributed." in said(page)
    assert page.number_input(key=at(page, "budget")).value is None
    page = fill(page, budget=20)
    assert tiles(page)["Runs to come"] == ("20", "now unknown")


def test_a_finished_experiment_is_looked_at_only(session: Session) -> None:
    session.finish("enough <b>is</b> known")
    n = len(session.events())
    page = fill(staged(what_if.page, session), budget=80)
    assert "This experiment is finished (enough \\<b>is\\</b> known)" in page.info[0].value
    assert session.what_if(max_runs=80).sentence in page.info[1].value
    assert page.button(key="what-if-apply").disabled
    assert len(session.events()) == n


def test_the_regions_are_shown_as_they_are(session: Session) -> None:
    page = staged(what_if.page, session)
    table = next(one.value for one in page.dataframe if "where" in one.value)
    counted = session.forecast().paper.regions
    assert table["region"].tolist() == [1, 2]
    assert table["good"].tolist() == [one.members for one in counted]
    assert table["evaluated"].tolist() == [one.evaluated for one in counted]
    assert table["pending"].tolist() == [str(one.pending) for one in counted]
    assert table["best"].tolist() == [f"{-one.best:g}" for one in counted]
    assert table["weight"].tolist() == ["no share", "no share"]
    assert all("mode good" in where for where in table["where"])
    page = fill(page, split=True)
    table = next(one.value for one in page.dataframe if "where" in one.value)
    assert table["weight"].tolist() == ["1", "1"]


def test_every_chart_says_in_words_what_it_shows(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    alts: list[str] = []
    draw = st.vega_lite_chart
    monkeypatch.setattr(
        st, "vega_lite_chart", lambda *a, **more: (alts.append(more["alt"]), draw(*a, **more))
    )
    page = fill(staged(what_if.page, session), budget=80)
    assert not any("on the map" in alt for alt in alts)
    page.session_state["what-if-map-open"] = True  # it is drawn once it is opened
    page.run()
    where, fan, chance, regions = alts[-4:]
    assert regions.endswith("on the map of all configurations")
    assert where.endswith("left to the strategy: 60 runs, 30 now")
    found = session.what_if(max_runs=80)
    before, best = found.before, found.after.best
    assert before.best is not None
    assert before.goal is not None
    assert before.goal.band is not None
    assert before.goal.chance is not None
    now = f"forecast of height: now median {before.best.median:.4g} after 30 runs more, from "
    assert fan.startswith(now)
    assert best is not None
    assert best.median is not None
    assert f"; then median {best.median:.4g} after 60 runs more" in fan
    now = f"{percent(before.goal.chance)}, {band_words(before.goal.band)}"
    assert chance.startswith(f"chance: now {now} depending on the space; then ")


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("budget", 19, "A budget of 19 is too small: 20 runs are used already."),
        (
            "budget",
            -3,
            "The budget of runs must be a whole number from 1 to 1,000,000,000, not -3.",
        ),
        ("budget", None, "To remove a limit, use *Steering*."),
        ("goal", "low", "'low' is not a number"),
        ("goal", "1,000", "no commas"),
        ("deadline", "soon", "Enter a time from now, such as 90s, 30m or 2h, or a moment in UTC"),
        ("deadline", "1970-01-01 12:00", "1970-01-01 12:00 UTC is in the past"),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field_and_stays(
    session: Session, name: str, value: object, told: str
) -> None:
    n = len(session.events())
    page = fill(staged(what_if.page, session), split=True, strategy="random")
    page = fill(page, **{name: value})
    assert [told in one.value for one in page.error] == [True]
    kind = page.number_input if name == "budget" else page.text_input
    assert kind(key=at(page, name)).value == value
    assert page.selectbox(key=at(page, "strategy")).value == "random"
    assert page.toggle(key=at(page, "split")).value
    assert "A field has an error." in said(page)
    assert tiles(page)["Runs to come"] == ("30", "")  # how things are: then is not shown
    assert page.button(key="what-if-apply").disabled
    assert len(session.events()) == n


def test_a_weight_below_nothing_is_refused(session: Session) -> None:
    page = fill(staged(what_if.page, session), split=True)
    weight = next(one for one in page.number_input if "Weight of region 1" in one.label)
    weight.set_value(-1.0).run()
    assert [one.value for one in page.error] == [
        "The weight of a region must be a number from 0 to 1,000,000, not -1.0."
    ]


def test_a_cost_needs_a_price(session: Session) -> None:
    page = staged(what_if.page, session)
    assert page.text_input(key=at(page, "cost")).disabled
    session.change_budget(Sla(50, goal=0.0, max_cost=40.0, tariff=Tariff("EUR", per_hour=3600.0)))
    page = fill(staged(what_if.page, session), cost="dear")
    assert "'dear' is not a number" in page.error[0].value
    page = fill(page, cost="400")
    assert session.what_if(max_cost=400.0).sentence in page.info[0].value
    page = press(page, "apply")
    assert "**Apply: a cost of 400 EUR in all.**" in page.warning[0].value


# -- apply and discard -------------------------------------------------------------------------


def test_it_asks_once_and_names_what_will_change(session: Session) -> None:
    events = session.events()
    page = fill(staged(what_if.page, session), split=True, share=40, budget=60)
    page = press(page, "apply")
    assert (
        page.warning[0].value
        == "**Apply: 40 % inside regions, 60 runs in all.** Everything else stays as it is."
    )
    page = press(page, "not-yet")
    assert session.events() == events
    assert page.number_input(key=at(page, "budget")).value == 60
    page = press(press(page, "apply"), "sure")
    assert page.success[0].value == "Applied: 40 % inside regions, 60 runs in all."
    assert session.experiment.sla == Sla(60, goal=0.0)
    assert session.experiment.steering.exploitation == 0.4
    assert page.query_params == {}
    assert page.slider(key=at(page, "share")).value == 40
    assert "Nothing is changed yet" in page.info[0].value
    assert page.button(key="what-if-apply").disabled


def test_what_was_asked_is_asked_again_if_it_changes(session: Session) -> None:
    page = press(fill(staged(what_if.page, session), budget=60), "apply")
    page = fill(page, budget=70)
    assert not [one for one in page.button if one.key == "what-if-sure"]
    assert len(page.warning) == 0


COMMANDS: tuple[tuple[dict[str, object], dict[int, float], list[str]], ...] = (
    ({"budget": 60}, {}, ["--runs", "60"]),
    ({"split": True, "share": 40}, {}, ["--exploitation", "0.4"]),
    ({"goal": ""}, {}, ["--goal", "none"]),
    (
        {"split": True, "share": 70, "budget": 80, "goal": "4", "strategy": "random"},
        {1: 2.0, 2: 0.0},
        ["--runs", "80", "--goal", "4", "--strategy", "random", "--exploitation", "0.7",
         "--weigh", "1=2", "--weigh", "2=0"],
    ),
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize(("typed", "weights", "options"), COMMANDS)
def test_applied_is_what_the_command_line_would_write(
    ran: tuple[Event, ...],
    tmp_path: Path,
    typed: dict[str, object],
    weights: dict[int, float],
    options: list[str],
) -> None:
    session = stored(ran)
    page = fill(staged(what_if.page, session), **typed)
    for region, weight in weights.items():
        field = next(one for one in page.number_input if one.label.endswith(f"region {region}"))
        field.set_value(weight).run()
    press(press(page, "apply"), "sure")
    there = SqliteStore(tmp_path / "store.db")
    there.append("hills", 0, ran)
    assert run(["steer", "hills", *options, "--store", str(tmp_path / "store.db")]) == 0
    written = session.events()[len(ran) :]
    assert changes(written) == changes(there.load("hills")[len(ran) :])
    assert written


def served(folder: Path, events: tuple[Event, ...]) -> Iterator[RemoteSession]:
    there = SqliteStore(folder / "store.db")
    there.append("hills", 0, events)
    tokens, log = RoleTokens.of_owner(), ServiceLog(level="error")
    service = make_service(ExperimentService(there, log), tokens, log)
    with HttpServer(service.asgi, bind(), log, drain=service.context.drain) as server:
        link = ApiClient(server.url, tokens.by_role[Role.OWNER])
        yield RemoteSession(link, "hills", Stopped())
        link.close()


def test_through_a_service_it_is_the_same(ran: tuple[Event, ...], tmp_path: Path) -> None:
    local = stored(ran)
    anchor = find_regions(local.experiment.knowledge, local.experiment.warning_policy.regions)[
        1
    ].best
    draft = WhatIfDraft(
        budget=80, share=70, goal="4", strategy="random",
        weights=((anchor.configuration.level_ids, 0.5),),
    )  # fmt: skip
    for remote in served(tmp_path, ran):
        for session in (local, remote):
            seen = in_force(session.experiment)
            asked = question(draft, session.experiment, session.now_s())
            apply(session, draft, seen, parts_of(asked.change, session.experiment))
        assert changes(remote.events()) == changes(local.events())
        assert [type(event) for event in local.events()[len(ran) :]] == [
            BudgetChanged, SteeringChanged, SteeringChanged
        ]  # fmt: skip


def test_discard_puts_every_field_back(session: Session) -> None:
    events = session.events()
    page = staged(what_if.page, session)
    before = {one.label: one.value for one in (*page.number_input, *page.text_input)}
    fill(page, split=True, share=40, budget=60, goal="x", deadline="2h", strategy="random")
    assert page.query_params
    page = press(page, "discard")
    assert {one.label: one.value for one in (*page.number_input, *page.text_input)} == before
    assert not page.toggle(key=at(page, "split")).value
    assert page.query_params == {}
    assert "Nothing is changed yet" in page.info[0].value
    assert session.events() == events


@pytest.mark.soak
def test_a_budget_that_leaves_nothing_is_thought_of_and_not_applied(session: Session) -> None:
    page = fill(staged(what_if.page, session), budget=20)
    assert "No run would be left" in page.info[0].value
    assert "20 runs are used; a budget of 20 leaves no run." in said(page)
    assert page.button(key="what-if-apply").disabled


# -- the address, other people, other pages ----------------------------------------------------


def test_the_address_opens_the_same_question(session: Session) -> None:
    page = fill(
        staged(what_if.page, session), split=True, share=40, budget=60, goal="", strategy="random",
        deadline="2h",
    )  # fmt: skip
    weight = next(one for one in page.number_input if one.label == "Weight of region 2")
    weight.set_value(0.5).run()
    address = dict(page.query_params)
    assert {name: address[name] for name in ("budget", "share", "goal", "strategy")} == {
        "budget": "60", "share": "40", "goal": "none", "strategy": "random"
    }  # fmt: skip
    assert address["deadline"] == "1970-01-12T15:48:20Z"
    other = staged(what_if.page, session)
    other.query_params.update(address)
    other.run()
    assert not other.exception
    assert other.info[0].value == page.info[0].value
    assert "region 2 with weight 0.5" in other.info[0].value
    assert tiles(other) == tiles(page)


def test_an_address_that_cannot_be_read_is_told_and_the_rest_is_taken(session: Session) -> None:
    page = staged(what_if.page, session)
    page.query_params.update({"budget": "many", "share": "40", "weights": "x:1", "goal": "low"})
    page.run()
    text = said(page)
    assert "budget=many in the address is not a whole number, so it is ignored." in text
    assert "The weights in the address cannot be read" in text
    assert "'low' is not a number" in page.error[0].value
    assert page.text_input(key=at(page, "goal")).value == "low"
    assert page.slider(key=at(page, "share")).value == 40
    assert page.number_input(key=at(page, "budget")).value == 50


@pytest.mark.parametrize(("name", "value"), [("share", "400"), ("share", "-3"), ("budget", "-5")])
def test_a_number_that_no_field_can_hold_is_left_out(
    session: Session, name: str, value: str
) -> None:
    page = staged(what_if.page, session)
    page.query_params[name] = value
    page.run()
    assert not page.exception
    assert f"{name}={value} in the address" in said(page)
    assert "Nothing is changed yet" in page.info[0].value


def test_a_share_in_the_address_waits_for_a_region() -> None:
    session = open_session(Hills(), store=MemoryStore(), sla=Sla(50), experiment_id="hills")
    page = staged(what_if.page, session)
    page.query_params["share"] = "40"
    page.run()
    assert "A share of 40 % inside regions has no effect until there is a region." in said(page)
    assert page.query_params["share"] == "40"
    assert page.button(key="what-if-apply").disabled


def test_somebody_elses_change_is_told_and_what_was_typed_stays(session: Session) -> None:
    page = fill(staged(what_if.page, session), goal="4")
    assert tiles(page)["Runs to come"] == ("30", "now 30")
    session.change_budget(Sla(70, goal=0.0))
    page = fill(page, strategy="random")  # typed before the change was seen: it is not lost
    assert (
        "The experiment has changed since you began: budget: 50 runs before, 70 runs now."
        in page.warning[0].value
    )
    assert tiles(page)["Runs to come"] == ("50", "now 50")
    assert page.number_input(key=at(page, "budget")).value == 70
    assert page.text_input(key=at(page, "goal")).value == "4"
    assert page.selectbox(key=at(page, "strategy")).value == "random"
    page = press(page, "seen")
    assert len(page.warning) == 0
    assert page.text_input(key=at(page, "goal")).value == "4"


def test_without_a_draft_the_fields_follow_and_nothing_is_told(session: Session) -> None:
    page = staged(what_if.page, session)
    session.change_budget(Sla(70, goal=3.0))
    page.run()
    assert len(page.warning) == 0
    assert page.number_input(key=at(page, "budget")).value == 70
    assert page.text_input(key=at(page, "goal")).value == "3"


def test_a_change_between_asking_and_the_answer_stops_it(session: Session) -> None:
    page = press(fill(staged(what_if.page, session), budget=60), "apply")
    session.change_strategy("random")
    events = session.events()
    page = press(page, "sure")
    assert session.events() == events
    assert not [one for one in page.button if one.key == "what-if-sure"]
    assert "strategy: copper" in page.warning[0].value
    assert page.number_input(key=at(page, "budget")).value == 60


def test_nothing_is_half_done(session: Session) -> None:
    """A region that is gone by the time of the answer takes the whole change with it."""
    draft = WhatIfDraft(budget=80, share=70, weights=(((9, 9, 9, 9, 9, 9), 2.0),))
    seen, events = in_force(session.experiment), session.events()
    parts = ("70 % inside regions", "80 runs in all", "region 1 with weight 2")
    with pytest.raises(FormFieldError, match="nothing was applied"):
        apply(session, draft, seen, parts)
    session.change_strategy("random")
    events = session.events()
    with pytest.raises(FormFieldError, match="nothing was applied"):
        apply(session, WhatIfDraft(budget=80), seen, ("80 runs in all",))
    session.finish("enough")
    events = session.events()
    with pytest.raises(FormFieldError, match="is finished"):
        apply(session, WhatIfDraft(budget=80), in_force(session.experiment), ("80 runs in all",))
    assert session.events() == events


def test_a_weight_stays_with_its_region_when_numbers_change(session: Session) -> None:
    page = fill(staged(what_if.page, session), split=True, share=70)
    weight = next(one for one in page.number_input if one.label == "Weight of region 2")
    weight.set_value(3.0).run()
    regions = find_regions(session.experiment.knowledge, session.experiment.warning_policy.regions)
    weighed = regions[1].members
    for e in (0, 1, 3, 4):  # better neighbours of region 2 than of region 1
        session.include({"a": 1, "b": 2, "c": 1, "d": 3, "e": e, "mode": "good"})
    session.run_queued(SerialExecutor(Hills()))
    after = find_regions(session.experiment.knowledge, session.experiment.warning_policy.regions)
    (at_now,) = [one.id for one in after if set(one.members) & set(weighed)]
    page.run()
    assert not page.exception
    assert f"region {at_now} with weight 3" in page.info[0].value
    field = next(one for one in page.number_input if one.label == f"Weight of region {at_now}")
    assert field.value == 3.0


def test_a_field_is_offered_for_the_best_regions_and_those_with_a_weight(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered(page: AppTest) -> list[str]:
        return [one.label for one in page.number_input if "Weight of region" in one.label]

    page = fill(staged(what_if.page, session), split=True, share=70)
    next(one for one in page.number_input if one.label == "Weight of region 2").set_value(3.0).run()
    monkeypatch.setattr(what_if, "MOST_WEIGHTS", 1)
    plain = staged(what_if.page, session)
    assert offered(plain) == ["Weight of region 1"]
    assert "Of 2 regions, the best and those with a weight." in said(plain)
    weighed = staged(what_if.page, session)
    weighed.query_params.update(dict(page.query_params))
    weighed.run()
    assert offered(weighed) == ["Weight of region 1", "Weight of region 2"]


def test_what_is_filled_in_stays_when_the_page_is_left(session: Session) -> None:
    def draw(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
        if st.session_state.get("elsewhere"):
            st.query_params.clear()
            return None
        return what_if.page(view_model, experiment)

    page = fill(staged(draw, session), budget=60, split=True, share=40, deadline="2h")
    shown = page.info[0].value
    page.session_state["elsewhere"] = True
    page.run()
    assert not page.number_input
    page.session_state["elsewhere"] = False
    page.run()
    assert not page.exception
    assert page.info[0].value == shown
    assert page.query_params["budget"] == "60"


def test_every_strategy_can_be_thought_of(session: Session) -> None:
    page = staged(what_if.page, session)
    box = page.selectbox(key=at(page, "strategy"))
    assert box.value == "copper"
    assert all(strategy_entry(name).summary in (box.help or "") for name in box.options)
