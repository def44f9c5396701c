"""The version of this installation."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


def version() -> str:
    """Return the installed version, or ``unknown`` if the package is not installed."""
    try:
        return installed_version("copperline")
    except PackageNotFoundError:
        return "unknown"
