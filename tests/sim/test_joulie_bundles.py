"""Profile bundles: out, in, and refused in words."""

import json
from pathlib import Path

import pytest

from sim.generators.generator import Model
from sim.generators.joulie.parameters import (
    FAMILIES,
    FORMAT,
    JoulieParameters,
    export_bundle,
    import_bundle,
    model_of,
    parameters_of,
    published_joulie,
)
from sim.generators.joulie.phases import USUAL_PHASES
from sim.model.errors import TraceError, WorkloadError

CHANGED = model_of(
    JoulieParameters(gpu_ratio=0.5, perf_ratio=0.1, phases=USUAL_PHASES, burst_hours=(3, 4)),
    "Made by hand.",
)


@pytest.mark.parametrize("only_changed", [False, True])
def test_a_bundle_comes_back_as_it_was(only_changed: bool, tmp_path: Path) -> None:
    path = tmp_path / "site a.json"
    export_bundle(CHANGED, path, notes="as of spring", only_changed=only_changed)
    back = import_bundle(path)
    assert back == CHANGED
    assert back.source == "Profile bundle 'site a': Made by hand."
    told = json.loads(path.read_text())
    assert (told["name"], told["notes"]) == ("site a", "as of spring")
    assert len(told["parameters"]) == (4 if only_changed else len(CHANGED.parameters))


def test_what_a_bundle_lacks_is_as_published(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    export_bundle(published_joulie(), path, only_changed=True)
    assert json.loads(path.read_text())["parameters"] == {}
    assert import_bundle(path) == published_joulie()
    part = {"families": {"debug_eval": {"duration_sec": {"median": 100}}}}
    told = {"format": FORMAT, "version": 1, "name": "b", "parameters": part}
    path.write_text(json.dumps(told))
    p = parameters_of(import_bundle(path))
    assert p.families["debug_eval"].duration_sec.median == 100
    assert p.families["debug_eval"].duration_sec.sigma == 1.0
    assert p.families["cpu_analytics"] == FAMILIES["cpu_analytics"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "x"}, 'which has "format": "copperline-joulie-profiles"'),
        ({"version": 2}, "the bundle has version 2; allowed is 1"),
        ({"digest": ""}, "a bundle has no entry 'digest'"),
        ({"name": 7}, "the entry 'name' must be a text"),
        ({"name": "a/b"}, "the entry 'name' may have letters"),
        ({"parameters": []}, "they must be a table"),
        ({"parameters": {"gpu_ration": 1}}, "have no 'gpu_ration'; known: jobs"),
        ({"parameters": {"gpu_ratio": 7}}, "parameter 'gpu_ratio' is 7; allowed are numbers"),
        ({"parameters": {"families": {"debug_eval": {"share": 0.9}}}}, "probabilities must sum"),
        ({"parameters": {"burst_hours": [10**400]}}, "'burst_hours', number 0 is 1000"),
        ({"parameters": {"families": {"party": {}}}}, "have no 'party'"),
        ({"parameters": {"phases": {"debug_eval": []}}}, "lists of 1 to 16 phases"),
    ],
)
def test_bad_bundles_are_refused_in_words(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "b.json"
    told = {"format": FORMAT, "version": 1, "name": "b", "parameters": {}} | change
    path.write_text(json.dumps(told))
    with pytest.raises(TraceError) as refused:
        import_bundle(path)
    assert said in str(refused.value)
    assert "b.json" in str(refused.value)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with pytest.raises(TraceError, match="cannot be read"):
        import_bundle(path)
    for text, said in (
        ("{", "not JSON"),
        ("[]", "not a bundle"),
        ('{"name": 1, "name": 2}', "'name' occurs twice"),
        (json.dumps({"format": FORMAT, "version": 1, "name": "b"}), "needs the entry 'parameters'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=said):
            import_bundle(path)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="the model is of 'lublin'"):
        export_bundle(Model("lublin"), tmp_path / "b.json")
    with pytest.raises(WorkloadError, match=r"must end in \.json"):
        export_bundle(published_joulie(), tmp_path / "b.txt")
    with pytest.raises(WorkloadError, match="the name of a bundle is 'a/b'"):
        export_bundle(published_joulie(), tmp_path / "b.json", name="a/b")
    assert list(tmp_path.iterdir()) == []
