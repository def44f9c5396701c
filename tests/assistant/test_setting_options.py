"""Options of the command line that override keys of a sweep file."""

from pathlib import Path
from typing import Annotated, Any

import click
import pytest
import typer

from assistant.cli.experiment_options import changed_sla
from assistant.cli.options import OPTIONS, Overrides, overridden_sweep, setting_options
from assistant.config.fields import field_at
from assistant.config.sweep_file import SweepSettings
from assistant.core.errors import SettingsError
from assistant.core.sla import Sla, Tariff


def command(*names: str, is_change: bool = False) -> click.Command:
    taken: list[dict[str, Any]] = []

    @setting_options(*names, is_change=is_change)
    def run(overrides: Overrides, last: Annotated[int, typer.Option()] = 1) -> int:
        taken.append({**overrides.values, "last": last})
        return 0

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(run)
    made = typer.main.get_command(app)
    made.taken = taken  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_a_key_of_the_sweep_file(name: str) -> None:
    option = OPTIONS[name]
    assert field_at(SweepSettings, option.path, option.kind).description
    assert option.info(name).help.strip()


def test_type_choices_and_default_come_from_the_field() -> None:
    options = {option.name: option for option in command("at_goal", "initial", "memory").params}
    help_text = options["at_goal"].help  # type: ignore[attr-defined]
    assert "stop or go_on." in help_text
    assert "[default: stop]" in help_text
    assert options["memory"].metavar == "SIZE"


def test_a_change_of_a_stored_experiment_shows_no_default() -> None:
    (at_goal, _) = command("at_goal", is_change=True).params
    assert "default" not in at_goal.help  # type: ignore[attr-defined]


def test_only_options_that_are_set_override() -> None:
    made = command("initial", "keep_going", "exclude")
    made.main(["--no-keep-going", "--initial", "7", "--last", "3"], standalone_mode=False)
    assert made.taken == [{"initial": 7, "keep_going": False, "last": 3}]  # type: ignore[attr-defined]


def overridden(tmp_path: Path, text: str, **values: Any) -> tuple[dict[str, Any], SweepSettings]:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    return overridden_sweep(file, Overrides(values))


def test_the_word_none_removes_a_key(tmp_path: Path) -> None:
    text = 'deadline = "2h"\n[cost]\nlimit = 5.0\nper_hour = 1.0\nresources = "nodes"\n'
    removed = {"deadline": " None", "cost_limit": "none", "cost_resources": "none"}
    tables, settings = overridden(tmp_path, text, **removed)
    assert settings.deadline is None
    assert tables["cost"] == {"per_hour": 1.0}


def test_a_measure_replaces_a_price_and_a_price_a_measure(tmp_path: Path) -> None:
    price = '[cost]\nper_hour = 1.0\nresources = "nodes"\n'
    tables, _ = overridden(tmp_path, price, cost_measure="energy_j")
    assert tables["cost"] == {"measure": "energy_j"}
    tables, _ = overridden(tmp_path, '[cost]\nmeasure = "energy_j"\n', cost_per_hour="2")
    assert tables["cost"] == {"per_hour": 2}


def test_a_wrong_file_and_a_wrong_option_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"sweep\.toml: there is no setting 'rums'"):
        overridden(tmp_path, "rums = 3\n", runs="4")
    with pytest.raises(SettingsError, match="the options: 'runs' must be a whole number from 1"):
        overridden(tmp_path, "runs = 3\n", runs="0")
    with pytest.raises(SettingsError, match="--runs 'many' is not a number"):
        overridden(tmp_path, "runs = 3\n", runs="many")


def test_an_sla_keeps_the_terms_that_no_option_changes() -> None:
    sla = Sla(20, 123.4, 9.0, Tariff("EUR", 1.0, "nodes"), goal=3.0, run_limit_s=60.0)
    assert changed_sla(sla, Overrides({}), 50.0) == sla
    changed = changed_sla(sla, Overrides({"runs": "none", "cost_resources": "none"}), 50.0)
    assert changed.max_runs is None
    assert changed.tariff == Tariff("EUR", 1.0)
    assert changed.deadline_s == 123.4
