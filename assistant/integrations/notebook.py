"""A live view in a notebook: one output that is redrawn. IPython is imported only when it is shown.

No widgets are needed: the output has a name, and a later message replaces it (``update_display``
of IPython), in Jupyter, VS Code, Colab and stored notebooks alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from assistant.core.errors import SettingsError, StudyWarning


class NotebookView:
    """An output of a notebook that shows HTML.

    Args:
        html: method that returns the HTML to show now; its object is not kept alive.
    """

    def __init__(self, html: Callable[[], str]) -> None:
        self._html = WeakMethod(html)
        self._handle: Any = None

    def show(self) -> None:
        """Open the output below the cell that runs now. Raises SettingsError outside notebooks."""
        try:
            from IPython.core.getipython import get_ipython
            from IPython.display import HTML, display
        except ImportError:
            shell = None
        else:
            shell = get_ipython()
        if shell is None:
            raise SettingsError(
                "watch() is for a notebook, and this is none; in a script, print(study)"
            )
        html = self._html()
        if html is not None:
            self._handle = display(HTML(html()), display_id=True)

    def redraw(self, *_changed: object) -> None:
        """Replace what the output shows; if that fails, warn and leave it as it is.

        It is a listener of a session, so what changed is ignored.
        """
        html = self._html()
        if self._handle is None or html is None:
            return
        try:
            from IPython.display import HTML

            self._handle.update(HTML(html()))
        except Exception as error:
            self._handle = None  # a view never ends a study
            warnings.warn(
                f"the view of the study is no longer updated ({error}); call watch() again",
                StudyWarning,
                stacklevel=2,
            )
