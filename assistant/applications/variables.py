"""The environment variables that a program of the user's is given: few, and those asked for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from assistant.errors import ApplicationError

USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR")
"""What every program is given of the environment that Copperline was started in."""

SECRET = "COPPERLINE_TOKEN*"  # noqa: S105 - the name of environment variables
"""What no program is given."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What numerical libraries look at for the number of their threads."""

_NAME = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_CLUES = (
    ("error while loading shared libraries", "LD_LIBRARY_PATH"),
    ("ModuleNotFoundError", "PYTHONPATH"),
)


def check_patterns(patterns: Iterable[str]) -> None:
    """Raise ApplicationError for what can be no pattern of names of variables."""
    for pattern in patterns:
        if not pattern or "=" in pattern or not pattern.isprintable():
            raise ApplicationError(
                f"inherit names variables, as in ['CUDA_*', 'LD_LIBRARY_PATH'], not {pattern!r}"
            )


def inherited(whole: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables that a program is given of an environment.

    >>> inherited({"PATH": "/bin", "CUDA_HOME": "/cuda", "A": "b"}, ["CUDA_*"])
    {'PATH': '/bin', 'CUDA_HOME': '/cuda'}
    """
    wanted = (*USUAL, *patterns)
    return {
        name: value
        for name, value in whole.items()
        if any(fnmatchcase(name, one) for one in wanted) and not fnmatchcase(name, SECRET)
    }


def threads(cores: int | None) -> dict[str, str]:
    """Return the variables that tell numerical libraries how many threads they may use."""
    return {} if cores is None else dict.fromkeys(THREADS, str(cores))


def missed(words: str, whole: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Return a hint at a variable that a failed program was not given; empty if there is none.

    Args:
        words: its last ones.
        whole: the environment that Copperline was started in.
        given: what the program was given of it, and more.

    >>> missed("KeyError: 'KEY'", {"KEY": "1"}, {})
    "it was not given the variable KEY; say inherit = ['KEY'] in [application], or set it in env"
    """
    kept = {n for n in whole if n not in given and not fnmatchcase(n, SECRET)}
    named = [name for name in _NAME.findall(words) if name in kept]
    named += [name for clue, name in _CLUES if clue in words and name in kept]
    if not named:
        return ""
    return (
        f"it was not given the variable {named[0]}; say inherit = ['{named[0]}'] in "
        "[application], or set it in env"
    )
