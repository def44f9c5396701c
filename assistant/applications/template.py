"""Texts with ``{name}`` in them, filled with the values of one run. Nothing else is interpreted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from assistant.errors import ApplicationError
from strategies import Level

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed text: literals and names in turn.

    >>> Template.parse("--size={size}x{{1}}", "the command").fill({"size": "a b; rm"})
    '--size=a b; rmx{1}'
    """

    text: str
    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, text: str, where: str) -> "Template":
        """Read a text; ``where`` names it in errors.

        Raises:
            ApplicationError: a lone brace, a name that is none, or a NUL character.
        """
        if "\0" in text:
            raise ApplicationError(f"{where} holds a NUL character, which no program can be given")
        parts: list[tuple[str, str | None]] = []
        literal, position = "", 0
        for token in _TOKEN.finditer(text):
            literal += text[position : token.start()]
            position = token.end()
            name = token.group(1)
            if token.group() in ("{{", "}}"):
                literal += token.group()[0]
            elif name is not None and name.isidentifier():
                parts.append((literal, name))
                literal = ""
            else:
                raise ApplicationError(
                    f"{where}, '{text}', holds '{token.group()}', which is no parameter's name "
                    "in braces; a brace of its own is written twice, {{ or }}"
                )
        parts.append((literal + text[position:], None))
        return cls(text, tuple(parts))

    @property
    def names(self) -> frozenset[str]:
        """What the text asks for."""
        return frozenset(name for _, name in self.parts if name is not None)

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the text with every name replaced; what is put in is never read again."""
        return "".join(
            literal + (texts[name] if name is not None else "") for literal, name in self.parts
        )

    def check(self, known: Iterable[str], where: str) -> None:
        """Raise ApplicationError if the text asks for a name that is not ``known``."""
        names = sorted(known)
        for name in sorted(self.names - set(names)):
            close = get_close_matches(name, names, 1)
            meant = f"; did you mean '{{{close[0]}}}'?" if close else "."
            raise ApplicationError(
                f"{where}, '{self.text}', asks for '{{{name}}}', which is no parameter{meant} "
                f"Known: {', '.join(names)}."
            )


def written(value: Level) -> str:
    """Return a level as a program is given it; truth values are ``true`` and ``false``.

    >>> written(0.1), written(16), written(True), written("a b")
    ('0.1', '16', 'true', 'a b')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
