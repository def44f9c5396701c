"""Exclusions: conditions that no proposed configuration may meet.

Their text is parsed against a whitelist and never run as Python. A name with dashes or dots stands
in backquotes, as in `pandas.DataFrame.query`. A comparison with an inactive parameter, which has no
value, is unknown, and so is what depends on it (Kleene's three-valued logic, as in SQL); an unknown
condition does not hold.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from strategies.space.errors import ExclusionError, hint
from strategies.space.parameter import (
    Family,
    Level,
    argument_name,
    family_of,
    is_name,
    show_values,
)

MAX_CHARACTERS = 500
MAX_DEPTH = 30

Values: TypeAlias = Mapping[str, Level | None]
Evaluate: TypeAlias = Callable[[Values], Any]

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
EQUALITIES = (ast.Eq, ast.NotEq)
MEMBERSHIPS = (ast.In, ast.NotIn)
ALLOWED_SENTENCE = (
    "allowed are and, or, not, comparisons, in [list], + - * / // %, parentheses, parameter "
    "names (with dashes or dots in backquotes: `a.b`), numbers, texts, True and False"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`([^`]*)`")


def quoted(name: str) -> str:
    """Return a parameter's name as conditions have it.

    >>> quoted("size"), quoted("optimizer.lr")
    ('size', '`optimizer.lr`')
    """
    return name if name.isidentifier() else f"`{name}`"


def equality(values: Mapping[str, Level]) -> str:
    """Return the condition that parameters have given values.

    >>> equality({"optimizer.lr": 0.1, "order": "sjf"})
    "`optimizer.lr` == 0.1 and order == 'sjf'"
    """
    return " and ".join(f"{quoted(name)} == {value!r}" for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Expression:
    """Parsed condition: text, parameter names and evaluation function."""

    text: str
    names: frozenset[str]
    tree: ast.expr
    evaluate: Evaluate


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Expression:
    """Parse the text of an exclusion condition.

    Raises `ExclusionError`, naming the offending piece, for anything outside the whitelist,
    more than 500 characters, or nesting deeper than 30.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExclusionError(
            f"an exclusion has {len(text)} characters; at most {MAX_CHARACTERS} are allowed, "
            "write it as several exclusions."
        )
    tree = _parse(text)
    _admit(tree, text, 0)
    if not isinstance(tree, ast.Compare | ast.BoolOp | ast.Name) and not _is_truth(tree):
        raise ExclusionError(
            f"exclusion '{text}' is not a condition; write a comparison, such as 'procs == 0'."
        )
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Expression(text, names, tree, _compile(tree))


def check_families(expression: Expression, families: Mapping[str, Family]) -> None:
    """Raise `ExclusionError` for comparisons of different types, such as number and text.

    All names of the expression are keys of ``families``, the type families of the parameters.
    """
    _expect(expression.tree, "truth", families, expression.text)


def evaluate(expression: Expression, values: Values) -> bool:
    """Return whether a condition is true for the parameter values of a configuration.

    Raises `ExclusionError`, naming the configuration, for a missing name, a division by
    zero, or operands that do not fit.
    """
    try:
        return bool(expression.evaluate(values))
    except KeyError as error:
        raise ExclusionError(
            f"exclusion '{expression.text}' needs a value for {error.args[0]!r}; given "
            f"values: {_shown(values) or 'none'}."
        ) from None
    except (ArithmeticError, TypeError) as error:
        used = {name: values.get(name) for name in sorted(expression.names)}
        raise ExclusionError(
            f"exclusion '{expression.text}' cannot be evaluated for {_shown(used)}: {error}; "
            "guard it, for example with 'x != 0 and ...'."
        ) from None


def _shown(values: Values) -> str:
    return show_values({name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class LevelInterval:
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float


Domain: TypeAlias = LevelInterval | frozenset[Level]
"""Values that a part of a condition can have: an interval of numbers, or texts or truth values."""

_EITHER: frozenset[Level] = frozenset((True, False))


class _UnsureError(Exception):
    """Signal of a part of a condition whose values cannot be bounded."""


def domain_of(values: Iterable[Level]) -> Domain:
    """Return the domain of one or more values of one family."""
    members = frozenset(values)
    numbers = [v for v in members if isinstance(v, int | float) and not isinstance(v, bool)]
    return LevelInterval(min(numbers), max(numbers)) if numbers else members


def is_surely_true(expression: Expression, domains: Mapping[str, Domain]) -> bool:
    """Return whether a condition is true for every combination of values in some domains.

    False where that cannot be seen from the bounds of the domains alone, in one pass over the
    condition (interval arithmetic; Moore, LevelInterval Analysis, 1966).
    """
    try:
        return _bounded(expression.tree, domains) == frozenset((True,))
    except (ArithmeticError, _UnsureError):
        return False


def _bounded(  # noqa: PLR0911 - one return per kind of node
    node: ast.expr, domains: Mapping[str, Domain]
) -> Domain:
    """Return a domain that has all values of an admitted expression."""
    match node:
        case ast.Name(id=name):
            return domains[name]
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return domain_of((value,))
        case ast.BoolOp(op=op, values=operands):
            decisive = isinstance(op, ast.Or)
            truths = [_truths(operand, domains) for operand in operands]
            if any(truth == {decisive} for truth in truths):
                return frozenset((decisive,))
            return frozenset().union(*truths)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return frozenset(not truth for truth in _truths(operand, domains))
        case ast.UnaryOp(operand=operand):
            inner = _interval(operand, domains)
            return LevelInterval(-inner.high, -inner.low)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _interval(left, domains), _interval(right, domains))
        case ast.Compare():
            return _compared(node, domains)
    raise AssertionError(f"{type(node).__name__} was admitted but has no bounds")


def _truths(node: ast.expr, domains: Mapping[str, Domain]) -> frozenset[Level]:
    """Return the truth values of an operand, both where they cannot be bounded."""
    try:
        domain = _bounded(node, domains)
    except (ArithmeticError, _UnsureError):
        return _EITHER
    return domain if isinstance(domain, frozenset) and domain <= _EITHER else _EITHER


def _interval(node: ast.expr, domains: Mapping[str, Domain]) -> LevelInterval:
    domain = _bounded(node, domains)
    if isinstance(domain, LevelInterval):
        return domain
    raise _UnsureError


def _arithmetic(op: ast.operator, left: LevelInterval, right: LevelInterval) -> LevelInterval:
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and right.low <= 0 <= right.high:
        raise _UnsureError
    if isinstance(op, ast.Mod):
        if right.low != right.high or right.low < 0:
            raise _UnsureError
        return LevelInterval(0, right.high)
    apply = ARITHMETIC[type(op)]
    ends = [apply(x, y) for x in (left.low, left.high) for y in (right.low, right.high)]
    if not all(map(math.isfinite, ends)):
        raise _UnsureError
    return LevelInterval(min(ends), max(ends))


def _compared(node: ast.Compare, domains: Mapping[str, Domain]) -> frozenset[Level]:
    """Return the truth values of a chain of comparisons."""
    truths: set[frozenset[Level]] = set()
    left = _bounded(node.left, domains)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(right_node, ast.List | ast.Tuple):
            each = [_equal(left, _bounded(element, domains)) for element in right_node.elts]
            member = frozenset((True,)) if {True} in each else frozenset((False,)).union(*each)
            truths.add(_negated(member) if isinstance(op, ast.NotIn) else member)
            continue
        right = _bounded(right_node, domains)
        truths.add(_link(op, left, right))
        left = right
    if frozenset((False,)) in truths:
        return frozenset((False,))
    return frozenset().union(*truths)


def _link(op: ast.cmpop, left: Domain, right: Domain) -> frozenset[Level]:
    if isinstance(op, ast.Eq):
        return _equal(left, right)
    if isinstance(op, ast.NotEq):
        return _negated(_equal(left, right))
    if not isinstance(left, LevelInterval) or not isinstance(right, LevelInterval):
        raise _UnsureError
    compare = COMPARISONS[type(op)]
    corners = ((left.low, right.high), (left.high, right.low))
    return frozenset(compare(a, b) for a, b in corners)


def _equal(left: Domain, right: Domain) -> frozenset[Level]:
    if isinstance(left, LevelInterval) and isinstance(right, LevelInterval):
        if left.high < right.low or right.high < left.low:
            return frozenset((False,))
        same = left.low == left.high == right.low == right.high
        return frozenset((True,)) if same else _EITHER
    if isinstance(left, LevelInterval) or isinstance(right, LevelInterval):
        raise _UnsureError
    if left.isdisjoint(right):
        return frozenset((False,))
    return frozenset((True,)) if len(left) == len(right) == 1 else _EITHER


def _negated(truths: frozenset[Level]) -> frozenset[Level]:
    return frozenset(not truth for truth in truths)


def _parse(text: str) -> ast.expr:
    if not text:
        raise ExclusionError("an exclusion is empty; write a condition such as 'procs == 0'.")
    if "\\" in text or not text.isprintable():
        raise ExclusionError(
            f"exclusion {text!r} contains a backslash or a control character; write it on one line "
            "without them."
        )
    plain, names = _without_quotes(text)
    try:
        tree = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
        raise ExclusionError(
            f"exclusion '{text}' cannot be read ({problem}); {ALLOWED_SENTENCE}."
        ) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.col_offset in names:
            node.id = names[node.col_offset]
    return tree


def _without_quotes(text: str) -> tuple[str, dict[int, str]]:
    """Return a condition with identifiers for names in backquotes, and those names.

    Identifiers are as long as what they replace, and names are by their offset in bytes, so that
    the places of the parsed pieces are those in the text.
    """
    names: dict[int, str] = {}

    def identifier(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group()
        if not is_name(name):
            raise ExclusionError(
                f"exclusion '{text}' has '{name}' in backquotes, which is not a parameter name."
            )
        names[len(text[: match.start()].encode())] = name
        return f"_{argument_name(name)}_"

    return _QUOTED.sub(identifier, text), names


def _admit(node: ast.expr, text: str, depth: int) -> None:
    """Check one node against the whitelist, then its children."""
    if depth > MAX_DEPTH:
        raise ExclusionError(
            f"exclusion '{text}' is nested deeper than {MAX_DEPTH}; write it as several exclusions."
        )
    match node:
        case ast.Name():
            children: list[ast.expr] = []
        case ast.Constant(value=value) if _is_level(value):
            children = []
        case ast.BoolOp(values=values):
            children = list(values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            children = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            children = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(
            type(op) in COMPARISONS for op in ops
        ):
            if len(ops) > 1 and any(isinstance(comparison, MEMBERSHIPS) for comparison in ops):
                raise _refusal(node, text)
            for comparison, right in zip(ops, comparators, strict=True):
                _admit_right(comparison, right, text)
            children = [left, *(right for right in comparators if not _is_list(right))]
        case _:
            raise _refusal(node, text)
    for child in children:
        _admit(child, text, depth + 1)


def _admit_right(op: ast.cmpop, right: ast.expr, text: str) -> None:
    """Refuse a list except at the right of in and not in."""
    if isinstance(op, MEMBERSHIPS) != _is_list(right):
        raise _refusal(right, text)
    if isinstance(right, ast.List | ast.Tuple):
        for element in right.elts:
            if not _is_constant(element):
                raise _refusal(element, text)


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple)


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        return isinstance(inner, ast.Constant) and _is_level(inner.value, numbers_only=True)
    return isinstance(node, ast.Constant) and _is_level(node.value)


def _is_level(value: object, *, numbers_only: bool = False) -> bool:
    if isinstance(value, bool | str):
        return not numbers_only
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _is_truth(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _refusal(node: ast.expr, text: str) -> ExclusionError:
    piece = ast.get_source_segment(text, node) or text
    if isinstance(node, ast.Attribute) and is_name(piece):
        return ExclusionError(
            f"exclusion '{text}' contains '{piece}'; write a name with dashes or dots in "
            f"backquotes, '{quoted(piece)}'."
        )
    return ExclusionError(f"exclusion '{text}' contains '{piece}'; {ALLOWED_SENTENCE}.")


def _compile(node: ast.expr) -> Evaluate:  # noqa: PLR0911 - one return per kind of node
    match node:
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Constant(value=value):
            return lambda _: value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            constants = tuple(_compile(element)({}) for element in elements)
            return lambda _: constants
        case ast.UnaryOp(op=op, operand=operand):
            return _compile_unary(op, _compile(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _compile_arithmetic(ARITHMETIC[type(op)], _compile(left), _compile(right))
        case ast.BoolOp(op=op, values=operands):
            return _compile_junction([_compile(operand) for operand in operands], op)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            links = [
                (COMPARISONS[type(op)], _compile(right))
                for op, right in zip(ops, comparators, strict=True)
            ]
            return _compile_chain(_compile(left), links)
    raise AssertionError(f"{type(node).__name__} was admitted but has no meaning")


def _compile_arithmetic(
    apply: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate
) -> Evaluate:
    def calculated(values: Values) -> int | float | None:
        x, y = left(values), right(values)
        return None if x is None or y is None else apply(_number(x), _number(y))

    return calculated


def _compile_unary(op: ast.unaryop, inner: Evaluate) -> Evaluate:
    def reversed_(values: Values) -> int | float | bool | None:
        value = inner(values)
        if value is None:
            return None
        return not value if isinstance(op, ast.Not) else -_number(value)

    return reversed_


def _compile_junction(parts: Sequence[Evaluate], op: ast.boolop) -> Evaluate:
    decisive = isinstance(op, ast.Or)

    def junction(values: Values) -> bool | None:
        is_unknown = False
        for part in parts:
            truth = part(values)
            if truth is None:
                is_unknown = True
            elif bool(truth) is decisive:
                return decisive
        return None if is_unknown else not decisive

    return junction


def _compile_chain(
    first: Evaluate, links: list[tuple[Callable[[Any, Any], bool], Evaluate]]
) -> Evaluate:
    def chain(values: Values) -> bool | None:
        left = first(values)
        is_unknown = False
        for compare, evaluate_right in links:
            right = evaluate_right(values)
            if left is None or right is None:
                is_unknown = True
            elif not compare(left, right):
                return False
            left = right
        return None if is_unknown else True

    return chain


def _number(value: Level) -> int | float:
    """Return a number, refuse a text: 'a' * 10**9 must not be computed."""
    if isinstance(value, str):
        raise TypeError(f"'{value}' is a text where a number is needed")
    return value


def _family(node: ast.expr, families: Mapping[str, Family], text: str) -> Family:
    match node:
        case ast.Name(id=name):
            return families[name]
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return family_of(value)
        case ast.BoolOp(values=operands):
            for operand in operands:
                _expect(operand, "truth", families, text)
            return "truth"
        case ast.UnaryOp(op=op, operand=operand):
            family: Family = "truth" if isinstance(op, ast.Not) else "number"
            _expect(operand, family, families, text)
            return family
        case ast.BinOp(left=left, right=right):
            _expect(left, "number", families, text)
            _expect(right, "number", families, text)
            return "number"
        case ast.Compare():
            _check_comparison(node, families, text)
            return "truth"
    raise AssertionError(f"{type(node).__name__} was admitted but has no family")


def _check_comparison(node: ast.Compare, families: Mapping[str, Family], text: str) -> None:
    left: ast.expr = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(right, ast.List | ast.Tuple):
            family = _family(left, families, text)
            for element in right.elts:
                _expect(element, family, families, text)
        elif isinstance(op, EQUALITIES):
            _expect(right, _family(left, families, text), families, text)
        else:
            _expect(left, "number", families, text)
            _expect(right, "number", families, text)
        left = right


def _expect(node: ast.expr, expected: Family, families: Mapping[str, Family], text: str) -> None:
    actual = _family(node, families, text)
    if actual != expected:
        piece = ast.get_source_segment(text, node) or text
        nouns = {"number": "a number", "text": "a text", "truth": "a condition or truth value"}
        raise ExclusionError(
            f"in exclusion '{text}', '{piece}' is {nouns[actual]} where {nouns[expected]} is "
            "needed."
        )


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Condition on parameter values by which configurations are excluded from the space.

    Raises `ExclusionError` if it cannot be parsed.
    """

    text: str  # the condition (see `strategies.space.exclusion` for the whitelist)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ExclusionError(f"an exclusion is {self.text!r}; write it as a text.")
        object.__setattr__(self, "text", self.text.strip())
        parse_expression(self.text)

    @classmethod
    def parse(cls, text: str) -> Exclusion:
        """Parse the text of an exclusion (the same as calling the class)."""
        return cls(text)

    @property
    def names(self) -> frozenset[str]:
        """Names of the parameters in the condition."""
        return parse_expression(self.text).names

    def check(self, families: Mapping[str, Family]) -> None:
        """Check that the condition fits the names and value types of a space's parameters.

        Raises `ExclusionError` for an unknown name or a comparison across families.
        """
        for name in sorted(self.names):
            if name not in families:
                whole = next((n for n in families if not n.isidentifier() and n in self.text), None)
                if whole is not None:
                    raise ExclusionError(
                        f"exclusion '{self.text}' contains '{whole}'; write a name with dashes or "
                        f"dots in backquotes, '{quoted(whole)}'."
                    )
                raise ExclusionError(
                    f"exclusion '{self.text}' names '{name}', which is not a parameter"
                    + hint(name, families)
                )
        check_families(parse_expression(self.text), families)

    def excludes(self, values: Mapping[str, Level | None]) -> bool:
        """Return whether the condition excludes a configuration with the given values.

        A value is None where its parameter is inactive.
        Raises `ExclusionError`, naming the configuration, if that cannot be evaluated.
        """
        return evaluate(parse_expression(self.text), values)

    def surely_excludes(self, domains: Mapping[str, Domain]) -> bool:
        """Return whether it excludes every combination of values in some domains, if that shows.

        False where the bounds of the domains do not decide it.
        """
        return is_surely_true(parse_expression(self.text), domains)
