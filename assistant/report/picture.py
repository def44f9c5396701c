"""One chart as a file of its own: SVG, PNG or a page."""

from html import escape
from pathlib import Path

from assistant.charts import Spec
from assistant.errors import SettingsError, StoreError
from assistant.report.html import check_target

ENDINGS = (".svg", ".png", ".html")

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 2rem; background: #fff }}
svg {{ max-width: 100%; height: auto }}
</style>
{drawing}
</html>
"""


def check_picture(path: Path) -> None:
    """Refuse a file that no picture can be written to.

    Raises:
        SettingsError: its ending says nothing.
        StoreError: it is a folder, or cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise SettingsError(
            f"the picture '{path}' must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    check_target(path)


def write_picture(spec: Spec, path: Path, title: str) -> Path:
    """Draw a chart on white into a file and return its absolute path.

    Args:
        spec: Vega-Lite.
        path: its ending says what is written.
        title: of the page.

    Raises:
        SettingsError, StoreError: see `check_picture`.
    """
    check_picture(path)
    target = path.absolute()
    try:
        target.write_bytes(drawing(spec, path.suffix.lower(), title))
    except OSError as error:
        raise StoreError(f"the picture '{path}' cannot be written: {error.strerror}") from error
    return target


def drawing(spec: Spec, ending: str, title: str) -> bytes:
    """Return the bytes of a picture."""
    import vl_convert

    white = {**spec, "background": "white"}
    if ending == ".png":
        return bytes(vl_convert.vegalite_to_png(white, scale=2.0))
    svg = str(vl_convert.vegalite_to_svg(white))
    return (svg if ending == ".svg" else _PAGE.format(title=escape(title), drawing=svg)).encode()
