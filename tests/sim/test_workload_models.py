"""Models on disk and named streams."""

import json
from pathlib import Path

import numpy as np
import pytest

from sim.generators.generator import Model, RandomStreams, arrays_beside, load_model, save_model
from sim.model.errors import TraceError, WorkloadError

MODEL = Model(
    "some", {"rate": 0.1, "names": ["a", "ü"]}, {"x": np.arange(3.0), "t": np.array(["p", "qq"])}
)


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    save_model(MODEL, tmp_path / "m.json")
    back = load_model(tmp_path / "m.json")
    assert back == MODEL
    assert back.arrays["t"].tolist() == ["p", "qq"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.npz"]


def test_what_was_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(MODEL, path)
    told = json.loads(path.read_text())
    told["parameters"]["rate"] = 0.2
    path.write_text(json.dumps(told))
    with pytest.raises(TraceError, match="was changed"):
        load_model(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a model"),
        ('{"format": "copperline-workload-model", "version": 9}', "has version 9"),
        ('{"format": "copperline-workload-model", "version": 1}', "'arrays' is missing"),
    ],
)
def test_what_is_no_model_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=said):
        load_model(path)


def test_arrays_that_are_no_arrays(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(MODEL, path)
    arrays_beside(path).write_bytes(b"PK nothing")
    with pytest.raises(TraceError, match="cannot be read"):
        load_model(path)
    arrays_beside(path).unlink()
    with pytest.raises(TraceError, match="cannot be read"):
        load_model(path)


def test_models_refuse_what_no_file_can_hold() -> None:
    with pytest.raises(WorkloadError, match="must be JSON values"):
        Model("some", {"x": float("nan")})
    with pytest.raises(WorkloadError, match="holds object"):
        Model("some", {}, {"x": np.array([None])})
    with pytest.raises(WorkloadError, match="has no parameter 'speed'; it has: names, rate"):
        MODEL.with_parameters({"speed": 1})


def test_a_stream_is_its_seed_and_its_name() -> None:
    streams = RandomStreams(4)
    drawn = streams.of("arrival").random(5).tolist()
    streams.of("lifetime").random(1000)
    assert streams.of("arrival").random(5).tolist() == drawn
    assert RandomStreams(5).of("arrival").random(5).tolist() != drawn
    assert streams.of("lifetime").random(5).tolist() != drawn
    assert streams.inside("a").of("b").random() == RandomStreams(4, ("a",)).of("b").random()
    with pytest.raises(WorkloadError, match="seed is -1"):
        RandomStreams(-1)
