"""Without a lane its width has no effect, so it is shown as a dash."""

from assistant.ui import labels
from strategies import Parameter, ParameterSpace

SPACE = ParameterSpace(
    (
        Parameter("lane_max_requested_s", (0, 900), unit="s"),
        Parameter("lane_max_procs", (1, 8), unit="processors"),
    )
)


def test_without_a_lane_its_width_is_a_dash() -> None:
    without = SPACE.from_values({"lane_max_requested_s": 0, "lane_max_procs": 8})
    lane = SPACE.from_values({"lane_max_requested_s": 900, "lane_max_procs": 1})
    assert labels.level_columns(SPACE, [without, lane]) == {
        "lane_max_requested_s": ["0 s", "15 min"],
        "lane_max_procs": ["—", "1 processor"],
    }
    assert labels.settings_of(SPACE, without) == "lane_max_requested_s 0 s"
    assert labels.settings_of(SPACE, lane).endswith("lane_max_procs 1 processor")
