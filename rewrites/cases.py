"""A rule's cases: one choice of rank for each variadic dim and of value for each choice attribute, traced to graphs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphs.graph import Graph
from graphs.trace import Proxy, TraceError, trace
from operators.expressions import Atom, Dim, Expression, Symbol, Variable, substitute, symbol
from operators.formulas import Formula, Truth, any_of, at_least_zero, equal
from operators.operator import ShapeError, TensorType, collecting_narrowings, collecting_obligations, collecting_units, taken_as_one
from operators.predicates import statement_of
from rewrites.rule import Requires, Rule, remembered
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable, Star, TensorVariable

_DEFAULT_DTYPES = {
    "float": "float32", "int": "int64", "uint": "uint8", "integer": "int64", "bool": "bool", "number": "float32",
    "real": "float32", "any": "float32",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Dims for each star by name, a value for each choice attribute, and the sizes that are 1 (where 1 broadcasts)."""

    stars: tuple[tuple[str, tuple[Dim, ...]], ...] = ()
    choices: tuple[tuple[str, Any], ...] = ()
    units: tuple[Expression, ...] = ()

    @property
    def ones(self) -> dict[Atom, Dim]:
        """The symbols that are 1: the factors of the units that are products."""
        return {symbol: 1 for unit in self.units if _is_product(unit) for symbol in sorted(unit.symbols, key=str)}

    def shape(self, variable: TensorVariable) -> tuple[Dim, ...]:
        """The shape of a tensor variable in this case."""
        ones = self.ones
        return tuple(substitute(dim, ones) for dim in variable.shape(dict(self.stars)))

    def __str__(self) -> str:
        parts = [f"*{name} = [{', '.join(map(str, dims))}]" for name, dims in self.stars]
        return ", ".join([*parts, *(f"{name} = {value}" for name, value in self.choices), *(f"{unit} = 1" for unit in self.units)])


@dataclass(frozen=True)
class TracedCase:
    """One case of a rule: both sides as graphs over the same inputs, with what is known of its sizes.

    `facts` are the conditions on sizes and attributes and what the pattern's operators require; `replacement_requires` is what
    the replacement's operators require and must follow from the facts; `value_conditions` speak of elements. `narrowed` are the
    facts that only the tracing needs: torch gives the pattern a meaning where they fail (it clamps the ends of slices).
    """

    rule: type[Rule]
    case: Case
    pattern: Graph
    replacement: Graph
    facts: tuple[Formula, ...]
    replacement_requires: tuple[Truth, ...]
    value_conditions: tuple[Requires, ...] = field(default=())
    narrowed: tuple[Formula, ...] = field(default=())


def proved_ranks(rule: type[Rule]) -> tuple[int, ...]:
    """The numbers of dims of a named star that are cases of the rule.

    0 to 2; to 3 where other dims stand before the star, so that the proof speaks of videos; to 4 where the rule has an axis variable, so
    that every axis of an image batch is a case.
    """
    signature = rule.signature()
    if signature.has_axes:
        return (0, 1, 2, 3, 4)
    first = all(v.dims.index(star) == 0 for v in signature.tensors for star in v.stars if not star.broadcastable)
    return (0, 1, 2) if first else (0, 1, 2, 3)


def cases(rule: type[Rule], ranks: Sequence[int] | None = None) -> Iterator[Case]:
    """Every case of the rule that its conditions and its pattern's operators do not rule out outright.

    Named stars take each of the ranks (`proved_ranks` unless given), and those whose names differ only in a number at the end
    have one rank (`*s1`, `*s2`: tensors to be joined); broadcastable stars (`...`) are all of one shape, and then each in turn of
    rank 0, and of size 1. A size for which 1 means something else to the pattern (it broadcasts, it is squeezed) is 1 in a case of
    its own.
    """
    signature = rule.signature()
    if ranks is None:
        ranks = proved_ranks(rule)
    named = [star for star in signature.stars.values() if not star.broadcastable]
    loose = [star for star in signature.stars.values() if star.broadcastable]
    families = list(dict.fromkeys(star.name.rstrip("0123456789") for star in named))
    for ranks_of in itertools.product(ranks, repeat=len(families)):
        rank_of = dict(zip(families, ranks_of, strict=True))
        fixed = {s.name: tuple(symbol(f"{s.name}_{i}") for i in range(rank_of[s.name.rstrip("0123456789")])) for s in named}
        for shapes in _broadcast_shapes(loose):
            for choices in signature.choices(fixed | shapes):
                yield from _with_units(rule, Case(tuple((fixed | shapes).items()), tuple(choices.items())))


def _broadcast_shapes(stars: Sequence[Star]) -> Iterator[dict[str, tuple[Dim, ...]]]:
    if not stars:
        yield {}
        return
    full: tuple[Dim, ...] = (symbol("size"),)
    for shapes in itertools.product((full, (1,), ()), repeat=len(stars)) if len(stars) <= 3 else _one_at_a_time(len(stars), full):
        if any(shape == full for shape in shapes) or not any(shapes):
            yield {star.name: shape for star, shape in zip(stars, shapes, strict=True)}


def _one_at_a_time(count: int, full: tuple[Dim, ...]) -> Iterator[tuple[tuple[Dim, ...], ...]]:
    yield (full,) * count
    for position in range(count):
        for other in ((1,), ()):
            yield tuple(other if i == position else full for i in range(count))


def _with_units(rule: type[Rule], case: Case) -> Iterator[Case]:
    """The case, and those in which sizes for which 1 is special are 1; without the ones that are ruled out."""
    pending, seen = [case], {case}
    while pending:
        case = pending.pop(0)
        units = _special_units(rule, case)
        if units is None:
            continue
        yield case
        for unit in units:
            further = Case(case.stars, case.choices, tuple(sorted({*case.units, unit}, key=str)))
            if further not in seen:
                seen.add(further)
                pending.append(further)


def _special_units(rule: type[Rule], case: Case) -> list[Expression] | None:
    """The sizes for which 1 is a case of its own; None when the conditions or the pattern's operators rule this case out."""
    if any(fact is False for fact in size_facts(rule, case)):
        return None
    with collecting_units() as found:
        try:
            trace_side(rule, rule.pattern, case)
        except ShapeError:
            strict = case.units or rule.signature().has_axes or len(case.stars) >= 2
            return None if strict else []
        except TraceError:  # `trace_case` raises it as well, and the verdict says it
            return []
    return sorted(found - set(case.units), key=str)


def _is_product(size: Expression) -> bool:
    """The size is a product of sizes, which is 1 where each of them is."""
    return len(size.terms) == 1 and next(iter(size.terms.values())) == 1 and all(isinstance(atom, Symbol) for atom in size.atoms)


def unit_facts(case: Case) -> list[Truth]:
    """That the sizes that are 1 in this case are."""
    return [equal(unit, 1) for unit in case.units]


def size_facts(rule: type[Rule], case: Case) -> list[Truth]:
    """The rule's conditions on sizes, attributes and choices, as statements."""
    return [size_condition(rule, condition, case) for condition in rule.requires if speaks_of_sizes(rule, condition)]


@remembered
def speaks_of_sizes(rule: type[Rule], condition: Requires) -> bool:
    """The condition is about dims, integer attributes and choices only."""
    valued = {v.name for v in rule.signature().variables if isinstance(v, (TensorVariable, RealVariable))}
    return not valued & set(condition.names)


def size_condition(rule: type[Rule], condition: Requires, case: Case, known: Mapping[str, Any] | None = None) -> Truth:
    """One condition on sizes as a statement; with `known`, names stand for the given numbers."""
    signature = rule.signature()
    values: dict[str, Any] = {name: Variable({(s,): 1}) for name, s in signature.symbols.items()}
    values |= {v.name: v.value() for v in signature.variables if isinstance(v, IntegerVariable)}
    values |= dict(case.choices) | {str(symbol): one for symbol, one in case.ones.items()} | dict(known or {})
    return statement_of(lambda: condition.predicate(*(values[name] for name in condition.names)))


def dtype_of(variable: TensorVariable) -> str:
    """The dtype with which a tensor variable is traced: the one it names, or the usual one of its kind."""
    if len(variable.dtypes) == 1:
        return variable.dtypes[0]
    return _DEFAULT_DTYPES.get(variable.kind, variable.dtypes[0] if variable.dtypes else "float32")


def arguments_for(rule: type[Rule], case: Case, graph: Graph, dtypes: Mapping[str, str] | None = None) -> list[Any]:
    """Fresh inputs of the graph for the rule's tensors and real attributes, and its other attributes as they are traced.

    `dtypes` gives tensors by name another dtype than the usual one.
    """
    choices, dtypes = dict(case.choices), dtypes or {}
    arguments: list[Any] = []
    for variable in rule.signature().variables:
        if isinstance(variable, TensorVariable):
            type = TensorType(case.shape(variable), dtypes.get(variable.name) or dtype_of(variable))
            arguments.append(Proxy(graph, graph.input(variable.name, type)))
        elif isinstance(variable, RealVariable):
            arguments.append(Proxy(graph, graph.input(variable.name, TensorType((), "float32", weak=True))))
        elif isinstance(variable, ChoiceVariable):
            arguments.append(choices[variable.name])
        else:
            values = tuple(case.ones.get(symbol, Variable({(symbol,): 1})) for symbol in variable.symbols)
            arguments.append(values if variable.length else values[0])
    return arguments


def attribute_facts(rule: type[Rule]) -> list[Truth]:
    """What every size and attribute of a call that torch accepts satisfies: dims are not negative."""
    signature = rule.signature()
    facts: list[Truth] = []
    for tensor in signature.tensors:
        for dim in tensor.dims:
            if not isinstance(dim, (Star, int)):
                facts.append(at_least_zero(dim))
    for name in signature.symbols:
        if not any(isinstance(v, IntegerVariable) and symbol_name in name for v in signature.variables for symbol_name in [v.name]):
            facts.append(at_least_zero(symbol(name)))
    return facts


def trace_side(
    rule: type[Rule], side: Callable[..., Any], case: Case, dtypes: Mapping[str, str] | None = None
) -> tuple[Graph, list[Truth]]:
    """One side of the rule as a graph, and what its operators require of symbolic sizes.

    Raises: TraceError, ShapeError as the function does; TraceError naming the rule when it raises anything else.
    """
    graph = Graph()
    arguments = arguments_for(rule, case, graph, dtypes)
    with collecting_obligations() as required, taken_as_one(case.units):
        try:
            graph.outputs = trace(side, arguments, graph)
        except (TraceError, ShapeError):
            raise
        except Exception as error:
            said = " ".join(str(error).split())
            raise TraceError(f"{rule.__name__}: its {side.__name__} raises {type(error).__name__}: {said}") from error
    return graph, required


def _given(choices: Mapping[str, Any], condition: Requires) -> Requires:
    """The condition on what is left open by the choices."""
    chosen = {name: choices[name] for name in condition.names if name in choices}
    if not chosen:
        return condition
    left = [name for name in condition.names if name not in chosen]

    def predicate(*values: Any) -> Any:
        return condition.predicate(**chosen, **dict(zip(left, values, strict=True)))

    predicate.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in left])  # type: ignore[attr-defined]
    return Requires(condition.sentence, predicate)


def trace_case(rule: type[Rule], case: Case, dtypes: Mapping[str, str] | None = None) -> TracedCase:
    """Both sides of the rule as graphs; `dtypes` gives tensors by name another dtype than the usual one.

    Raises: TraceError, ShapeError as the rule's functions do.
    """
    facts: list[Truth] = [*attribute_facts(rule), *size_facts(rule, case), *unit_facts(case)]
    for _, dims in case.stars:
        facts += [at_least_zero(dim) for dim in dims]
    own = set(facts)
    with collecting_narrowings() as narrowed:
        pattern, required = trace_side(rule, rule.pattern, case, dtypes)
    facts += required
    replacement, owed = trace_side(rule, rule.replacement, case, dtypes)
    return TracedCase(
        rule,
        case,
        pattern,
        replacement,
        tuple(dict.fromkeys(fact for fact in facts if isinstance(fact, Formula))),
        tuple(dict.fromkeys(owed)),
        tuple(_given(dict(case.choices), condition) for condition in rule.requires if not speaks_of_sizes(rule, condition)),
        tuple(dict.fromkeys(fact for fact in narrowed if isinstance(fact, Formula) and fact not in own)),
    )


__all__ = [
    "Case", "TracedCase", "any_of", "arguments_for", "cases", "dtype_of", "equal", "proved_ranks", "size_condition", "size_facts",
    "speaks_of_sizes", "trace_case", "trace_side", "unit_facts",
]  # fmt: skip
