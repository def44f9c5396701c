"""Packings at their first failure, as points."""

from assistant.presentation.charts.capacity import PackingPoint, packings


def test_a_point_is_a_packing_and_outliers_lie_on_the_edge() -> None:
    points = [
        PackingPoint(0.7, 0.98, "random"),
        PackingPoint(0.99, 0.6, "cosine"),
        PackingPoint(0.1, 0.9, "cosine"),
    ]
    spec = packings(points, ("random", "cosine"), 0.5)
    assert spec["data"]["values"] == [
        {"memory": 0.7, "cpu": 0.98, "algorithm": "random"},
        {"memory": 0.99, "cpu": 0.6, "algorithm": "cosine"},
        {"memory": 0.1, "cpu": 0.9, "algorithm": "cosine"},
    ]
    line, dots = spec["layer"]
    assert line["data"]["values"] == [{"memory": 0.5, "cpu": 0.5}, {"memory": 1, "cpu": 1}]
    for axis in ("x", "y"):
        assert dots["encoding"][axis]["scale"] == {"domain": [0.5, 1], "nice": False, "clamp": True}
    colours = dots["encoding"]["color"]["scale"]
    assert colours["domain"] == ["random", "cosine"]
    assert len(set(colours["range"])) == 2
