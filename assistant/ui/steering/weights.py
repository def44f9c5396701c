"""How much each region counts in the division of the runs inside."""

import streamlit as st

from assistant import Experiment
from assistant.report.watched import region_rows
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, answer_at
from strategies import factors_of, find_regions


def section(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw a weight for each region, where a share of the runs is spent inside them."""
    answer_at("weights")
    steering, rule = experiment.steering, experiment.watch.regions
    if steering.exploitation is None:
        return None
    regions = find_regions(experiment.knowledge, rule)
    if not regions:
        st.caption("Regions can be weighed once there are some.")
        return None
    factors = factors_of(regions, steering.weights, experiment.space, rule.radius)
    ranges = {row.id: row.ranges for row in region_rows(experiment, 0.0)}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Region",
            [region.id for region in regions],
            format_func=lambda at: f"{at}: {ranges[at]}",
            key="weigh-region",
            width=320,
        )
        present = factors[chosen - 1]
        weight = st.number_input(
            "Weight",
            0.0,
            value=present,
            step=0.5,
            key=f"weigh-{chosen}-{present}",
            width=130,
            help="1 is as it is found, 2 twice as much; nothing goes into a region of weight 0.",
        )
        pressed = st.button("Weigh", key="weigh", disabled=weight == present)
    if not pressed:
        return None

    def do() -> str:
        desk.session.weigh_region(chosen, weight)
        return f"Region {chosen} counts {weight:g} from now on."

    return Intent("weights", do)
