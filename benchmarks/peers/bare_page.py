"""Two pages of Streamlit with a title, a button and one small chart: the floor of `ui_sizes`."""

import streamlit as st

CHART = {
    "data": {"values": [{"x": i, "y": i * i} for i in range(5)]},
    "mark": "line",
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
    },
}


def draw(title: str) -> None:
    """Draw a page with its title; the button counts its clicks."""
    st.title(title)
    st.session_state.clicks = st.session_state.get("clicks", 0) + st.button("Count")
    st.text(f"{st.session_state.clicks} clicks")
    st.vega_lite_chart(CHART)


st.navigation(
    [
        st.Page(lambda: draw("First"), title="First", url_path="first", default=True),
        st.Page(lambda: draw("Second"), title="Second", url_path="second"),
    ]
).run()
