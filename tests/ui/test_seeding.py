"""A field's first value reaches the browser, even if the run of the script is interrupted."""

from streamlit.testing.v1 import AppTest


def _script() -> None:
    import streamlit as st

    from assistant.ui.state import mark_rendered, seed

    n = st.session_state["n"] = st.session_state.get("n", 0) + 1
    seed("chosen", ["x"])
    st.multiselect("A", ["x", "y"], key="chosen")
    if n == 1:
        st.stop()  # as the next run of the script does
    mark_rendered()


def test_a_first_value_is_told_until_a_run_came_to_its_end() -> None:
    app = AppTest.from_function(_script, default_timeout=300).run()
    told = []
    for _ in range(3):
        (field,) = app.multiselect
        told.append(field.proto.set_value)
        assert field.value == ["x"]
        app.run()
    assert told == [True, True, False]


def test_what_is_chosen_meanwhile_stays() -> None:
    app = AppTest.from_function(_script, default_timeout=300).run()
    app.multiselect[0].select("y").run()
    assert app.multiselect[0].value == ["x", "y"]
    assert app.run().multiselect[0].value == ["x", "y"]


def _script_with_put() -> None:
    import streamlit as st

    from assistant.ui.state import mark_rendered, put, seed

    n = st.session_state["n"] = st.session_state.get("n", 0) + 1
    if n == 2:
        put("chosen", "y")
    seed("chosen", "x")
    st.radio("A", ["x", "y"], key="chosen")
    if n == 2:
        st.stop()
    mark_rendered()


def test_a_value_that_is_put_in_later_is_told_until_a_run_came_to_its_end() -> None:
    app = AppTest.from_function(_script_with_put, default_timeout=300).run()
    told = []
    for _ in range(3):
        app.run()
        assert app.radio[0].value == "y"
        told.append(app.radio[0].proto.set_value)
    assert told == [True, True, False]


def _script_with_choice() -> None:
    import streamlit as st

    from assistant.ui.state import mark_rendered, seed_choice

    seed_choice("chosen", "y")
    st.radio("A", ["x", "y"], key="chosen")
    mark_rendered()


def test_a_choice_is_told_every_time() -> None:
    app = AppTest.from_function(_script_with_choice, default_timeout=300).run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("y", True)
    app.run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("y", True)
    app.radio[0].set_value("x").run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("x", True)
