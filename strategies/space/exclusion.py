"""Exclusions: conditions that no proposed configuration may meet.

Their text is parsed against a whitelist and never run as Python.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from strategies.space.errors import ExclusionError, hint
from strategies.space.parameter import Family, Level, family_of, show_values

MAX_CHARACTERS = 500
MAX_DEPTH = 30

Values: TypeAlias = Mapping[str, Level]
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
    "names, numbers, texts, True and False"
)


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
            f"values: {show_values(values) or 'none'}."
        ) from None
    except (ArithmeticError, TypeError) as error:
        used = {name: values[name] for name in sorted(expression.names) if name in values}
        raise ExclusionError(
            f"exclusion '{expression.text}' cannot be evaluated for {show_values(used)}: {error}; "
            "guard it, for example with 'x != 0 and ...'."
        ) from None


def _parse(text: str) -> ast.expr:
    if not text:
        raise ExclusionError("an exclusion is empty; write a condition such as 'procs == 0'.")
    if "\\" in text or not text.isprintable():
        raise ExclusionError(
            f"exclusion {text!r} contains a backslash or a control character; write it on one line "
            "without them."
        )
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
        raise ExclusionError(
            f"exclusion '{text}' cannot be read ({problem}); {ALLOWED_SENTENCE}."
        ) from None


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
            inner = _compile(operand)
            if isinstance(op, ast.Not):
                return lambda values: not inner(values)
            return lambda values: -_number(inner(values))
        case ast.BinOp(left=left, op=op, right=right):
            return _compile_arithmetic(ARITHMETIC[type(op)], _compile(left), _compile(right))
        case ast.BoolOp(op=op, values=operands):
            parts = [_compile(operand) for operand in operands]
            if isinstance(op, ast.And):
                return lambda values: all(part(values) for part in parts)
            return lambda values: any(part(values) for part in parts)
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
    return lambda values: apply(_number(left(values)), _number(right(values)))


def _compile_chain(
    first: Evaluate, links: list[tuple[Callable[[Any, Any], bool], Evaluate]]
) -> Evaluate:
    def chain(values: Values) -> bool:
        left = first(values)
        for compare, evaluate_right in links:
            right = evaluate_right(values)
            if not compare(left, right):
                return False
            left = right
        return True

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
                raise ExclusionError(
                    f"exclusion '{self.text}' names '{name}', which is not a parameter"
                    + hint(name, families)
                )
        check_families(parse_expression(self.text), families)

    def excludes(self, values: Mapping[str, Level]) -> bool:
        """Return whether the condition excludes a configuration with the given values.

        Raises `ExclusionError`, naming the configuration, if that cannot be evaluated.
        """
        return evaluate(parse_expression(self.text), values)
