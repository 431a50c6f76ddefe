"""What a rule's variables are: tensors with named dims, integer, real and choice attributes."""

from __future__ import annotations

import ast
import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from operators.expressions import Atom, Dim, Expression, Symbol, Variable, floor_divide, substitute, symbol


class RuleDefinitionError(TypeError):
    """A rule that cannot be used as written; the message names the rule and what it must have."""


class _Mark:
    """What `Annotated` carries for a kind of rule variable."""

    def __init__(self, name: str, length: int = 0) -> None:
        self.name, self.length = name, length

    def __repr__(self) -> str:
        return self.name


_WEIGHT = _Mark("Weight")
T = TypeVar("T")
Weight = Annotated[T, _WEIGHT]
"""Marks an operand that must be a constant at inference: `Weight[Float[Tensor, "m n"]]`."""
Pair: TypeAlias = Annotated[tuple[int, int], _Mark("Pair", 2)]
"""Two integers, as a convolution's stride: one variable each."""
Triple: TypeAlias = Annotated[tuple[int, int, int], _Mark("Triple", 3)]
"""Three integers."""
Axis: TypeAlias = Annotated[int, _Mark("Axis")]
"""An axis, counted from the end: every axis of the rule's first tensor is tried, those of its variadic dims included."""


@dataclass(frozen=True)
class Star:
    """Any number of dims under one name (`*batch`); of its own for each variable when written `...`."""

    name: str
    broadcastable: bool = False

    def __str__(self) -> str:
        return f"*{self.name}"


@dataclass(frozen=True)
class TensorVariable:
    """A tensor: its dims (a `Star` at most once), the dtypes it may have, and whether it must be constant."""

    name: str
    dims: tuple[Dim | Star, ...]
    kind: str
    dtypes: tuple[str, ...]
    weight: bool = False

    def shape(self, stars: Mapping[str, tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The dims with stars replaced."""
        result: list[Dim] = []
        for dim in self.dims:
            if isinstance(dim, Star):
                result.extend(stars[dim.name])
            else:
                result.append(dim)
        return tuple(result)

    @property
    def stars(self) -> list[Star]:
        return [dim for dim in self.dims if isinstance(dim, Star)]


@dataclass(frozen=True)
class IntegerVariable:
    """An integer attribute, or several (`Pair`, `Triple`)."""

    name: str
    length: int = 0

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        if not self.length:
            return (Symbol(self.name),)
        return tuple(Symbol(f"{self.name}[{i}]") for i in range(self.length))

    def value(self) -> Any:
        """The variable as a rule's functions see it while they are traced."""
        values = tuple(Variable({(s,): 1}) for s in self.symbols)
        return values if self.length else values[0]


@dataclass(frozen=True)
class RealVariable:
    """A real attribute (an epsilon, a slope); in graphs a weak scalar operand."""

    name: str


@dataclass(frozen=True)
class ChoiceVariable:
    """An attribute with few values (a bool, a Literal, an axis); each value is a case of the rule."""

    name: str
    choices: tuple[Any, ...]


@dataclass(frozen=True)
class AxisVariable(ChoiceVariable):
    """An axis of the rule's first tensor; its choices depend on that tensor's rank."""

    choices: tuple[Any, ...] = ()


AnyVariable: TypeAlias = TensorVariable | IntegerVariable | RealVariable | ChoiceVariable

_KINDS = {
    "Float": "float", "Int": "int", "UInt": "uint", "Integer": "integer", "Bool": "bool", "Complex": "complex",
    "Num": "number", "Real": "real", "Shaped": "any", "Inexact": "float",
}  # fmt: skip


_RARE = {"int2", "int4", "uint2", "uint4", "uint16", "uint32", "uint64"}
_RARE |= {"float4_e2m1fn", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
"""Dtypes that annotations of a whole kind leave out: PyTorch has hardly an operator for them, so that no test speaks of them."""


@dataclass(frozen=True)
class Signature:
    """The variables of a rule in the order of its functions' parameters."""

    variables: tuple[AnyVariable, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @property
    def tensors(self) -> tuple[TensorVariable, ...]:
        return tuple(v for v in self.variables if isinstance(v, TensorVariable))

    @property
    def symbols(self) -> dict[str, Symbol]:
        """Every dim and integer attribute by name."""
        found: dict[str, Symbol] = {}
        for variable in self.variables:
            if isinstance(variable, TensorVariable):
                for dim in variable.dims:
                    if isinstance(dim, Expression):
                        found.update({s.name: s for s in dim.symbols})
            elif isinstance(variable, IntegerVariable):
                found.update({s.name: s for s in variable.symbols})
        return found

    @property
    def stars(self) -> dict[str, Star]:
        """Every star by name."""
        return {star.name: star for tensor in self.tensors for star in tensor.stars}

    def choices(self, stars: Mapping[str, tuple[Dim, ...]]) -> Iterator[dict[str, Any]]:
        """Every combination of values of the choice variables, for tensors whose stars are these."""
        variables = [v for v in self.variables if isinstance(v, ChoiceVariable)]
        rank = len(self.tensors[0].shape(stars)) if self.tensors else 0
        options = [tuple(range(-rank, 0)) if isinstance(v, AxisVariable) else v.choices for v in variables]
        for values in itertools.product(*options):
            yield dict(zip([v.name for v in variables], values, strict=True))

    @property
    def has_axes(self) -> bool:
        """Some variable is an axis."""
        return any(isinstance(variable, AxisVariable) for variable in self.variables)

    @staticmethod
    def of(rule: str, function: Callable[..., Any]) -> Signature:
        """The signature of a rule's pattern.

        Raises: RuleDefinitionError for a parameter without a usable annotation.
        """
        try:
            annotations = typing.get_type_hints(function, include_extras=True)
        except Exception as error:
            raise RuleDefinitionError(f"{rule}: the annotations of its pattern cannot be read: {error}") from error
        variables: list[AnyVariable] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise RuleDefinitionError(f"{rule}: parameter {name} must be an ordinary parameter, got *{name}")
            if name not in annotations:
                raise RuleDefinitionError(f'{rule}: parameter {name} needs an annotation such as Float[Tensor, "m n"], int or Pair')
            variables.append(_variable(rule, name, annotations[name]))
        return Signature(tuple(variables))


def _variable(rule: str, name: str, annotation: Any) -> AnyVariable:
    marks: tuple[Any, ...] = ()
    while typing.get_origin(annotation) is Annotated:
        annotation, *found = typing.get_args(annotation)
        marks += tuple(mark for mark in found if isinstance(mark, _Mark))
    for mark in marks:
        if mark.name in ("Pair", "Triple"):
            return IntegerVariable(name, mark.length)
        if mark.name == "Axis":
            return AxisVariable(name)
    if annotation is bool:
        return ChoiceVariable(name, (False, True))
    if annotation is int:
        return IntegerVariable(name)
    if annotation is float:
        return RealVariable(name)
    if typing.get_origin(annotation) is Literal:
        return ChoiceVariable(name, typing.get_args(annotation))
    if hasattr(annotation, "dim_str"):
        return _tensor(rule, name, annotation, _WEIGHT in marks)
    raise RuleDefinitionError(
        f"{rule}: parameter {name} must be a jaxtyping tensor, int, float, bool, Literal, Axis, Pair or Triple, got {annotation}"
    )


def _tensor(rule: str, name: str, annotation: Any, weight: bool) -> TensorVariable:
    dims: list[Dim | Star] = []
    for token in annotation.dim_str.split():
        token = token.rpartition("=")[2] if "=" in token else token
        if token == "...":
            dims.append(Star(f"...{name}", broadcastable=True))
        elif token.lstrip("#").startswith("*"):
            broadcastable = "#" in token
            star = token.strip("#*")
            dims.append(Star(f"{star}@{name}" if broadcastable else star, broadcastable))
        elif token == "_":
            dims.append(symbol(f"{name}_{len(dims)}"))
        elif token.startswith("#"):
            raise RuleDefinitionError(f"{rule}: dim {token} of {name}: write ... or *#name for broadcasting")
        else:
            dims.append(parse_dim(rule, name, token))
    if sum(isinstance(dim, Star) for dim in dims) > 1:
        raise RuleDefinitionError(f'{rule}: {name} has more than one variadic dim in "{annotation.dim_str}"')
    base = annotation.__name__.split("[")[0]
    dtypes = annotation.dtypes
    kind = _KINDS.get(base, base.lower())
    names = tuple(dtypes) if isinstance(dtypes, (tuple, list)) else ()
    if not kind.startswith("complex"):  # Num, Inexact and Shaped stand for real numbers here: no proof or test speaks of others
        names = tuple(dtype for dtype in names if not str(dtype).startswith("complex"))
    if len(names) > 1:
        names = tuple(dtype for dtype in names if dtype not in _RARE)
    return TensorVariable(name, tuple(dims), kind, names, weight)


_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floor_divide,
    ast.Mod: lambda a, b: a % b,
}


def parse_dim(rule: str, variable: str, text: str) -> Dim:
    """A dim such as `groups*c`, `h + 2` or `3`, as an expression.

    Raises: RuleDefinitionError for anything but names, integers and + − * // %.
    """

    def build(node: ast.AST) -> Dim:
        if isinstance(node, ast.Expression):
            return build(node.body)
        if isinstance(node, ast.Name):
            return symbol(node.id)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](build(node.left), build(node.right))  # type: ignore[no-any-return]
        raise RuleDefinitionError(f"{rule}: dim {text} of {variable} must be made of names, integers and + - * // %")

    try:
        return build(ast.parse(text.strip("{}"), mode="eval"))
    except SyntaxError as error:
        raise RuleDefinitionError(f"{rule}: dim {text} of {variable} must be made of names, integers and + - * // %") from error


def evaluate_dim(dim: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """A dim under an assignment of its symbols."""
    return substitute(dim, values)
