"""A sweep file from what a program over HTTP says of itself: its parameters and what is wanted."""

from collections.abc import Mapping
from typing import Any

from assistant.applications.rest_address import check_url
from assistant.errors import SettingsError
from assistant.settings import build_sweep, check_settings
from assistant.toml_text import toml_text

_OF_THE_PROGRAM = ("today", "noisy", "limit")
_KEYS = ("parameters", "objective", *_OF_THE_PROGRAM)


def described_sweep(url: str) -> str:
    """Return the text of a sweep file for the program at an address, as it describes itself.

    Raises:
        AssistantError, StrategyError: it is not reached, or says what cannot be swept.
    """
    from assistant.applications.rest_call import describe

    who = f"the program at {check_url(url)}"
    found = _without_nulls(describe(url))
    strange = sorted(found.keys() - set(_KEYS))
    if strange:
        raise SettingsError(
            f"{who} describes itself with '{strange[0]}'; it may say {', '.join(_KEYS)}, as the "
            "sweep file of a program of your own does"
        )
    tables = {
        "application": {
            "kind": "rest", "url": url, **{k: found[k] for k in _OF_THE_PROGRAM if k in found},
        },
        **{key: found[key] for key in ("objective", "parameters") if key in found},
    }  # fmt: skip
    build_sweep(check_settings(tables, who))
    text = toml_text(tables)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{who} describes itself with half a character") from error
    return text


def _without_nulls(value: Any) -> Any:
    """Return what was said without what was left open: null is as if it were not there."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
