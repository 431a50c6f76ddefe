"""Bare pairs of functions, as used with torch.compile's pattern matcher, as rules: example tensors generalised to all sizes."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import jaxtyping
import torch
from torch import Tensor

from graphs.graph import Graph
from graphs.trace import Proxy, TraceError, trace
from operators.expressions import Dim, Expression, Variable, substitute, symbol
from operators.formulas import Comparison, Truth
from operators.operator import ShapeError, TensorType, collecting_obligations, kind_of
from rewrites.generalise import Equations, IncompatibleSizesError, letters, source_of
from rewrites.rule import Rule
from rewrites.signature import RuleDefinitionError

_ANNOTATIONS = {"float": "Float", "int": "Int", "bool": "Bool", "complex": "Complex"}


def rule_from_pair(
    pattern: Callable[..., Any], replacement: Callable[..., Any], example_inputs: Sequence[Any], name: str | None = None, source: str = ""
) -> type[Rule]:
    """A rule from two functions and example inputs: real tensors (whose sizes become symbols), numbers and booleans.

    Sizes that the pattern needs to be equal share a symbol; a size of 1 stays 1, as torch.export has it; a size that the
    pattern fixes keeps its number. Tensors of one dtype may have any dtype of its kind; where the examples mix several
    floating dtypes, each tensor keeps its own.
    Raises: RuleDefinitionError with one sentence.
    """
    name = name or _name(pattern)
    parameters = _parameters(name, "pattern", pattern, len(example_inputs))
    _parameters(name, "replacement", replacement, len(example_inputs))
    examples = dict(zip(parameters, example_inputs, strict=True))
    renamed = _renamed(replacement, parameters)
    shapes = _general_shapes(name, pattern, renamed, examples)
    annotations = {parameter: _annotation(name, parameter, examples, shapes) for parameter in parameters}
    body = {
        "__doc__": f"What {_name(pattern)} computes, {_name(replacement)} computes.",
        "__module__": pattern.__module__,
        "source": source or f"{_file(pattern)}, given as a pair of functions",
        "pattern": staticmethod(with_annotations(pattern, annotations)),
        "replacement": staticmethod(renamed),
    }
    return type(name, (Rule,), body)


def _parameters(name: str, side: str, function: Callable[..., Any], count: int) -> list[str]:
    """The names of the arguments that the examples stand for; those of built-in functions are made up."""
    numbered = [f"x{position + 1}" for position in range(count)]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return numbered
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return numbered
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    if not needed <= count <= len(positional):
        wanted = ", ".join(p.name for p in positional)
        raise RuleDefinitionError(f"{name}: example inputs must be one for each argument of the {side} ({wanted}), got {count}")
    return [p.name for p in positional[:count]]


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "Pair" if name == "<lambda>" else name.strip("_")


def _file(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def with_annotations(function: Callable[..., Any], annotations: dict[str, Any]) -> Callable[..., Any]:
    """A copy of the function with these annotations, or a function that calls it where it is no plain function."""
    if isinstance(function, FunctionType) and _is_plain(function, list(annotations)):
        copied = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
        copied.__annotations__ = annotations
        return copied
    return _calling(function, list(annotations), annotations)


def _is_plain(function: FunctionType, names: Sequence[str]) -> bool:
    """The function takes exactly these arguments, each by position or name."""
    parameters = inspect.signature(function).parameters
    return list(parameters) == list(names) and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())


def _renamed(function: Callable[..., Any], parameters: Sequence[str]) -> Callable[..., Any]:
    """The function under the pattern's names for its parameters."""
    return with_annotations(function, dict.fromkeys(parameters, Any))


def _calling(function: Callable[..., Any], parameters: Sequence[str], annotations: dict[str, Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    call.__name__ = _name(function)
    call.__annotations__ = annotations
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])  # type: ignore[attr-defined]
    return call


def _annotation(name: str, parameter: str, examples: dict[str, Any], shapes: dict[str, tuple[Dim, ...]]) -> Any:
    value = examples[parameter]
    if isinstance(value, (bool, int, float)):
        return type(value)
    if parameter not in shapes:
        raise RuleDefinitionError(f"{name}: example input {parameter} must be a tensor, a number or a boolean, got {type(value).__name__}")
    text = " ".join(map(source_of, shapes[parameter]))
    return _tensor_class(value.dtype, [other.dtype for other in examples.values() if isinstance(other, Tensor)])[Tensor, text]


def _tensor_class(dtype: torch.dtype, all_dtypes: Sequence[torch.dtype]) -> Any:
    """jaxtyping's class for the dtype: of its kind when the examples have one dtype of the kind, otherwise of exactly it."""
    names = [str(other).removeprefix("torch.") for other in all_dtypes]
    name = str(dtype).removeprefix("torch.")
    if dtype != torch.uint8 and len({other for other in names if kind_of(other) == kind_of(name)}) == 1:
        return getattr(jaxtyping, _ANNOTATIONS[kind_of(name)])
    return getattr(jaxtyping, {"bfloat16": "BFloat16", "uint8": "UInt8"}.get(name, name.capitalize()))


def _general_shapes(
    name: str, pattern: Callable[..., Any], replacement: Callable[..., Any], examples: dict[str, Any]
) -> dict[str, tuple[Dim, ...]]:
    """The most general shapes of the example tensors under which the pattern, and if it can be at all the replacement, can be traced."""
    tensors = {parameter: value for parameter, value in examples.items() if isinstance(value, Tensor)}
    places = [(parameter, axis) for parameter, value in tensors.items() for axis in range(value.ndim) if value.shape[axis] != 1]
    fixed = {parameter: list(value.shape) for parameter, value in tensors.items()}
    unfit = _unified(pattern, examples, fixed, set())
    if isinstance(unfit, str):
        raise RuleDefinitionError(f"{name}: the pattern cannot be traced on the example inputs: {unfit}")
    both = _traceable(replacement, examples, unfit)

    def fits(free: set[tuple[str, int]]) -> bool:
        shapes = _unified(pattern, examples, fixed, free)
        return not isinstance(shapes, str) and (not both or _traceable(replacement, examples, shapes))

    free = set(places)
    if not fits(free):
        free = set()
        for group in [*_equal_sizes(places, fixed), *({place} for place in places)]:
            if not group <= free and fits(free | group):
                free |= group
    shapes = _unified(pattern, examples, fixed, free)
    assert not isinstance(shapes, str)
    names = letters(list(shapes.values()), taken=examples)
    return {p: tuple(substitute(dim, names) for dim in shape) for p, shape in shapes.items()}


def _equal_sizes(places: Sequence[tuple[str, int]], sizes: dict[str, list[int]]) -> list[set[tuple[str, int]]]:
    """The places of equal sizes together: where the pattern speaks of one, it speaks of the others."""
    groups: dict[int, set[tuple[str, int]]] = {}
    for parameter, axis in places:
        groups.setdefault(sizes[parameter][axis], set()).add((parameter, axis))
    return list(groups.values())


def _unified(
    pattern: Callable[..., Any], examples: dict[str, Any], sizes: dict[str, list[int]], free: set[tuple[str, int]]
) -> dict[str, tuple[Dim, ...]] | str:
    """The shapes with the free sizes as symbols, equal where the pattern needs it; or why the pattern cannot be traced so."""
    given: dict[str, tuple[Dim, ...]] = {
        p: tuple(symbol(f"{p}_{axis}") if (p, axis) in free else size for axis, size in enumerate(shape)) for p, shape in sizes.items()
    }
    equations = Equations(fixed=[p for p, value in examples.items() if isinstance(value, int)])
    for _ in itertools.count():
        shapes = {p: tuple(equations.value(dim) for dim in shape) for p, shape in given.items()}
        try:
            owed = _obligations(pattern, examples, shapes)
        except (ShapeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        equalities = [f.expression for f in owed if isinstance(f, Comparison) and f.relation == "=="]
        before = len(equations.solution)
        try:
            equations.add(*((expression, 0) for expression in equalities))
        except IncompatibleSizesError as error:
            return str(error)
        if len(equations.solution) == before:
            return shapes
    raise AssertionError("unreachable")


def _traceable(function: Callable[..., Any], examples: dict[str, Any], shapes: dict[str, tuple[Dim, ...]]) -> bool:
    """The function can be traced; whether its operands fit together is for the verifier to say."""
    try:
        _obligations(function, examples, shapes)
    except TraceError:
        return False
    except ShapeError:
        return True
    return True


def _obligations(pattern: Callable[..., Any], examples: dict[str, Any], shapes: dict[str, tuple[Dim, ...]]) -> list[Truth]:
    graph = Graph()
    arguments: list[Any] = []
    for parameter, value in examples.items():
        if isinstance(value, Tensor):
            type = TensorType(shapes[parameter], str(value.dtype).removeprefix("torch."))
            arguments.append(Proxy(graph, graph.input(parameter, type)))
        elif isinstance(value, float):
            arguments.append(Proxy(graph, graph.input(parameter, TensorType((), "float32", weak=True))))
        elif isinstance(value, bool):
            arguments.append(value)
        elif isinstance(value, int):
            arguments.append(Variable(Expression.of(symbol(parameter)).terms))
        else:
            raise TypeError(f"example input {parameter} must be a tensor, a number or a boolean, got {value.__class__.__name__}")
    with collecting_obligations() as owed:
        trace(pattern, arguments, graph)
    return [fact for fact in owed if fact is not True]


__all__ = ["rule_from_pair", "with_annotations"]
