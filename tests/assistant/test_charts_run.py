"""The charts of a run: they compile, and what is in the values is in the picture."""

from typing import Any

import vl_convert

from assistant.presentation.charts.schedule import (
    BRUSH,
    JOB,
    ClassWaits,
    DensityCell,
    Frame,
    JobBox,
    StepLine,
    WaitChange,
    curves,
    gantt,
    overview,
    wait_changes,
    waits_by_class,
)

DAY = 86_400.0
KINDS = (("none", "#e5e419"), ("over 12 h", "#46327e"))
FRAME = Frame(0.0, DAY, 8, (("main", 0),), KINDS, "waited")
TWO = Frame(0.0, DAY, 8, (("small", 0), ("main", 2)), KINDS, "waited")
BOXES = (
    JobBox(7, 0.0, 0.0, 3600.0, 0, 4, 4, "0 s", "none"),
    JobBox(9, 10.0, 50_000.0, 60_000.0, 2, 8, 6, "13 h 53 min", "over 12 h"),
)


def picture(spec: dict[str, Any]) -> str:
    return str(vl_convert.vegalite_to_svg(dict(spec)))


def selections(spec: dict[str, Any]) -> list[str]:
    return [one["name"] for layer in spec["layer"] for one in layer.get("params", ())]


def test_a_gantt_has_every_job_and_can_be_clicked() -> None:
    spec = gantt(BOXES, (), FRAME)
    assert selections(spec) == [JOB]
    drawn = picture(spec)
    assert drawn.count("job: ") == len(BOXES)  # what a mark says to a screen reader
    assert "waited: 13 h 53 min" in drawn
    assert "0 d 12:00" in drawn
    assert "small" not in drawn


def test_partitions_have_names_and_shade_says_how_much() -> None:
    spec = gantt(BOXES, (DensityCell(0.0, 900.0, 0.0, 1.0, 0.25),), TWO)
    drawn = picture(spec)
    assert drawn.count(">small<") == 2  # on its halo
    assert "used by smaller jobs: 25%" in drawn
    assert selections(spec) == [JOB]


def test_the_strip_has_a_brush() -> None:
    spec = overview(StepLine("all", ((0.0, 0.5), (DAY, 0.75), (3 * DAY, 0.0))), 0.0, DAY)
    assert selections(spec) == [BRUSH]
    drawn = picture(spec)
    assert ">1 d 00:00<" in drawn
    assert ">2 d 00:00<" in drawn


def test_ticks_are_whole_days_hours_or_seconds() -> None:
    line = StepLine("all", ((0.0, 0.0), (400 * DAY, 0.0)))
    assert ">60 d<" in picture(overview(line, 0.0, DAY))
    short = picture(curves([line], 90_000.0, 90_020.0, "jobs"))
    assert ">1 d 01:00:05<" in short


def test_curves_are_told_apart_by_more_than_colour() -> None:
    lines = [
        StepLine("run 1", ((0.0, 0.5), (DAY, 0.75))),
        StepLine("run 2", ((0.0, 0.25), (DAY, 0.0))),
    ]
    spec = curves(lines, 0.0, DAY, "utilisation", percent=True)
    drawn = picture(spec)
    assert "stroke-dasharray" in drawn
    assert ">run 2<" in drawn
    assert ">100%<" in drawn
    alone = picture(curves(lines[:1], 0.0, DAY, "utilisation", percent=True))
    assert ">run 1<" not in alone  # one line needs no legend


def test_peaks_are_drawn_of_counts_only() -> None:
    line = StepLine("jobs", ((0.0, 1.0), (DAY, 1.0)), ((0.0, 3.0), (DAY, 3.0)))
    assert len(curves([line], 0.0, DAY, "jobs that wait")["layer"]) == 2
    assert len(curves([line], 0.0, DAY, "utilisation", percent=True)["layer"]) == 1
    empty = StepLine("jobs", ((0.0, 0.0), (DAY, 0.0)))
    assert ">1<" in picture(curves([empty], 0.0, DAY, "jobs that wait"))


def test_waits_stand_in_order_and_an_empty_class_keeps_its_name() -> None:
    waits = (
        ClassWaits("long", 3, 4000.0, 0.0, 3600.0, 7200.0, 80_000.0, 90_000.0),
        ClassWaits("medium", 0, None, None, None, None, None, None),
        ClassWaits("short", 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    drawn = picture(waits_by_class(waits))
    names = [drawn.index(f">{name}<") for name in ("long", "medium", "short")]
    assert names == sorted(names)
    for tick in (">0<", ">1 h<", ">1 d<"):
        assert tick in drawn
    assert ">7 d<" not in drawn
    assert ">7 d<" in picture(waits_by_class(waits, 700_000.0))  # as another run needs
    picture(waits_by_class(waits[1:2]))  # nothing to draw is no fault


def test_changes_have_both_signs() -> None:
    changes = (
        WaitChange(0.0, 3600.0, 5, -7200.0, 0.0, 60.0),
        WaitChange(3600.0, 7200.0, 2, 0.0, 5.0, 9.0),
    )
    drawn = picture(wait_changes(changes, 0.0, DAY, "run 4"))
    assert "starts later than in run 4" in drawn
    for tick in (">-1 h<", ">0<", ">1 h<"):
        assert tick in drawn
