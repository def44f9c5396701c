"""Optuna's dashboard over a study with very many finished trials; all it needs of ours.

``PYTHON dashboard_child.py FILE N PORT`` serves it on the loopback until it is ended.
"""

import sys
from importlib import import_module
from pathlib import Path

from storage_child import filled  # beside this file


def main() -> None:
    """Fill a storage if it is not there yet, and serve it."""
    path, n_trials, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    optuna, dashboard = import_module("optuna"), import_module("optuna_dashboard")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if not Path(path).exists():
        filled(optuna, path, n_trials)
    dashboard.run_server(f"sqlite:///{path}", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
