"""Pages in the look of ours, with their charts drawn into them."""

import jinja2
from markupsafe import Markup

from assistant.charts import Spec


def pages(*packages: str) -> jinja2.Environment:
    """Return an environment for templates of HTML, which may include ``style.html.j2``.

    Args:
        packages: that have a folder ``templates``, looked at before our own.
    """
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package) for package in (*packages, "assistant.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def svg(spec: Spec) -> Markup:
    """Return a drawing for a page."""
    import vl_convert

    return Markup(vl_convert.vegalite_to_svg(spec))  # noqa: S704 - our own drawing, no foreign markup
