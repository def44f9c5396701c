"""The page *Compare*: chosen by hand or by the address, with one report to download."""

from collections.abc import Mapping

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Experiment
from assistant.core.ports import StoredExperiment
from assistant.ui.pages import compare
from tests.assistant.examples import TODAY, Bowl
from tests.assistant.test_experiment_comparison import measured
from tests.ui.screens import shown, sound

pytestmark = pytest.mark.slow


def opened(experiments: Mapping[str, Experiment], *address: str) -> AppTest:
    def script(stored, experiments):  # type: ignore[no-untyped-def]  # its source runs by itself
        from assistant.ui.pages import compare

        compare.page(stored, experiments.__getitem__)

    stored = tuple(
        StoredExperiment(key, experiment.opened.name, 0.0, experiment.n_events)
        for key, experiment in experiments.items()
    )
    page = AppTest.from_function(script, args=(stored, experiments), default_timeout=300)
    page.query_params["c"] = list(address)
    return sound(page.run())


def three() -> dict[str, Experiment]:
    sizes = {"small": 4, "middle": 8, "large": 16}
    return {name: measured(Bowl(TODAY), name, n) for name, n in sizes.items()}


def test_one_experiment_is_not_enough_and_two_are_chosen() -> None:
    assert "needs two experiments" in shown(opened({"one": measured(Bowl(), "one", 1)}))
    page = opened(three())
    assert "Choose 2 to 6 experiments" in shown(page)
    page.multiselect(key=compare.CHOSEN).set_value(["small", "large"]).run()
    sound(page)
    assert page.query_params["c"] == ["small", "large"]
    assert [one.value for one in page.subheader] == [
        "Best so far: height", "Settings that differ", "Best configurations", "Effects: height",
    ]  # fmt: skip
    assert list(page.dataframe[0].value["experiment"]) == ["small", "large"]


def test_the_address_names_them_and_what_is_gone_is_left_out() -> None:
    page = opened(three(), "large", "gone", "middle")
    assert page.multiselect(key=compare.CHOSEN).value == ["large", "middle"]
    assert "height" in shown(page)


def test_only_parameters_that_differ_unless_all_are_wanted() -> None:
    both = {name: measured(Bowl(TODAY), name, 24) for name in ("one", "two")}
    page = opened(both, "one", "two")

    def best() -> list[str]:
        tables = [one.value for one in page.dataframe if "parameter" in one.value]
        return list(tables[0]["parameter"]) if len(tables) > 1 else []

    assert "None: the best configurations are the same." in shown(page)
    assert best() == []
    page.toggle(key="compare-only-different").set_value(False).run()
    assert best() == ["x", "y", "mode"]
