"""Fields of the browser UI for a strategy and its options."""

from collections.abc import Mapping

import streamlit as st

from strategies import Level, strategy_entry, strategy_names


def strategy_fields(
    key: str, present: str, options: Mapping[str, Level]
) -> tuple[str, dict[str, Level]]:
    """Draw the choice of a strategy and its options and return the name and options."""
    names = list(strategy_names())
    name = st.selectbox(
        "Strategy",
        names,
        index=names.index(present) if present in names else 0,
        help="\n\n".join(
            f"{strategy_name}: {strategy_entry(strategy_name).summary}" for strategy_name in names
        ),
        key=f"{key}-strategy",
    )
    selected_options: dict[str, Level] = {}
    for option in strategy_entry(name).options:
        value = options.get(option.name, option.default) if name == present else option.default
        field = f"{key}-{name}-{option.name}"
        label = option.name.replace("_", " ").capitalize()
        if option.choices:
            at = option.choices.index(str(value))
            selected_options[option.name] = st.selectbox(
                label, option.choices, at, help=option.summary, key=field
            )
        elif option.type is bool:
            selected_options[option.name] = st.checkbox(
                label, bool(value), help=option.summary, key=field
            )
        elif option.type is float and option.low is not None and option.high is not None:
            selected_options[option.name] = st.slider(
                label, option.low, option.high, float(value), 0.05, help=option.summary, key=field
            )
        elif option.type is int:
            low = None if option.low is None else int(option.low)
            high = None if option.high is None else int(option.high)
            selected_options[option.name] = st.number_input(
                label, low, high, int(value), help=option.summary, key=field
            )
        elif option.type is float:
            selected_options[option.name] = st.number_input(
                label, option.low, option.high, float(value), help=option.summary, key=field
            )
        else:
            selected_options[option.name] = st.text_input(
                label, str(value), help=option.summary, key=field
            )
    return name, selected_options
