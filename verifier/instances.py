"""Concrete instances of a rule, built from its signature and conditions: cases, sizes, attributes, tensors."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FunctionType
from typing import Any

import torch
from hypothesis import strategies as st

from operators.expressions import Atom, Dim, Symbol, substitute
from operators.formulas import Formula
from operators.operator import kind_of
from rewrites.cases import Case, TracedCase, attribute_facts, size_facts, speaks_of_sizes, trace_case, unit_facts
from rewrites.rule import Requires, Rule
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable, TensorVariable
from verifier import conditions
from verifier.drawing import drawn_cases
from verifier.positions import Positions, positions_in
from verifier.sizes import Assignment, SizeModel, flattened
from verifier.values import EXTREME, LAYOUTS, ORDINARY, POSITIVE, SMALL, SPECIAL, WIDE, draw_number, draw_values, laid_out

MOST_ELEMENTS = 20_000
"""Instances whose tensors together have more elements are not drawn."""

FLOATS = ("float64", "float32", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_KINDS = {
    "float": FLOATS, "int": INTEGERS[:4], "uint": ("uint8",), "integer": INTEGERS, "bool": ("bool",), "complex": ("complex128",),
    "number": FLOATS + INTEGERS, "real": FLOATS + INTEGERS, "any": (*FLOATS, *INTEGERS, "bool"),
}  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """Arguments for a rule's two functions, as data: `arguments()` makes them afresh.

    `tensors` holds each tensor variable's elements (contiguous); `layouts` how each lies in memory; `shared` names, for a
    variable that is bound to the same tensor as another, that other one.
    """

    rule: type[Rule]
    case: Case
    sizes: Mapping[str, int]
    reals: Mapping[str, float]
    tensors: Mapping[str, torch.Tensor]
    layouts: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    values: str = SMALL
    seed: int = 0

    def arguments(self) -> list[Any]:
        """Fresh arguments in the order of the signature."""
        made: dict[str, torch.Tensor] = {}
        for name, tensor in self.tensors.items():
            if name not in self.shared:
                made[name] = laid_out(tensor, self.layouts.get(name, "contiguous"))
        for name, other in self.shared.items():
            made[name] = made[other]
        return [self.argument(variable, made) for variable in self.rule.signature().variables]

    def argument(self, variable: Any, made: Mapping[str, torch.Tensor]) -> Any:
        """The value of one variable."""
        if isinstance(variable, TensorVariable):
            return made[variable.name]
        if isinstance(variable, RealVariable):
            return self.reals[variable.name]
        if isinstance(variable, ChoiceVariable):
            return dict(self.case.choices)[variable.name]
        assert isinstance(variable, IntegerVariable)
        numbers = tuple(self.sizes[s.name] for s in variable.symbols)
        return numbers if variable.length else numbers[0]

    @property
    def named(self) -> dict[str, Any]:
        """The arguments by name, tensors as stored."""
        made = {name: self.tensors[self.shared.get(name, name)] for name in self.tensors}
        return {variable.name: self.argument(variable, made) for variable in self.rule.signature().variables}

    @property
    def attributes(self) -> dict[str, Any]:
        """The arguments that are not tensors."""
        return {name: value for name, value in self.named.items() if not isinstance(value, torch.Tensor)}

    @property
    def dtype(self) -> str:
        """The dtypes of the tensors, in words."""
        names = dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in self.tensors.values())
        return " and ".join(names)

    @property
    def elements(self) -> int:
        return sum(tensor.numel() for name, tensor in self.tensors.items() if name not in self.shared)

    @property
    def floating(self) -> bool:
        """Some tensor or attribute is a floating-point number."""
        return bool(self.reals) or any(tensor.is_floating_point() or tensor.is_complex() for tensor in self.tensors.values())

    def with_dtype(self, dtype: torch.dtype) -> Instance:
        """The same instance with its floating tensors in another dtype."""
        return replace(self, tensors={n: t.to(dtype) if t.is_floating_point() else t for n, t in self.tensors.items()})


class Ground:
    """One case of a rule, ready to draw from: its facts, its traced sides where tracing succeeds, a pool of sizes."""

    def __init__(self, rule: type[Rule], case: Case, seed: int) -> None:
        self.rule, self.case, self.seed = rule, case, seed

    @cached_property
    def trace(self) -> TracedCase | Exception:
        """Both sides as graphs, or why they cannot be traced."""
        try:
            return trace_case(self.rule, self.case)
        except Exception as error:  # whatever a user's function raises on symbols is said in the verdict, not hidden
            return error

    @property
    def facts(self) -> tuple[Formula, ...]:
        """What the sizes of this case satisfy wherever torch gives the pattern a meaning."""
        facts = flattened([*attribute_facts(self.rule), *size_facts(self.rule, self.case), *unit_facts(self.case)])
        if isinstance(self.trace, TracedCase):
            narrowed = set(flattened(self.trace.narrowed))
            facts += [fact for fact in flattened(self.trace.facts) if fact not in narrowed]
        return tuple(dict.fromkeys(fact for fact in facts if isinstance(fact, Formula)))

    @cached_property
    def model(self) -> SizeModel:
        """The sizes of this case."""
        signature = self.rule.signature()
        attributes = [s.name for v in signature.variables if isinstance(v, IntegerVariable) for s in v.symbols]
        stars = [s.name for _, dims in self.case.stars for dim in dims if not isinstance(dim, int) for s in sorted(dim.symbols, key=str)]
        return SizeModel([*signature.symbols, *stars], attributes, self.facts, landmarks(self.rule))

    @cached_property
    def pool(self) -> list[Assignment]:
        """Assignments to draw from, the smallest first; also beyond what the proof is narrowed to, where torch accepts more."""
        found = self.model.pool(self.seed)
        if isinstance(self.trace, TracedCase) and self.trace.narrowed:
            wider = SizeModel(self.model.names, self.model.attributes, self.facts, landmarks(self.rule)).pool(self.seed + 1, count=12)
            found = sorted([*found, *(sizes for sizes in wider if sizes not in found)], key=self.model.weight)
        return found

    @cached_property
    def positions(self) -> dict[str, Positions]:
        """The tensors that the pattern reads as positions."""
        return positions_in(self.trace.pattern) if isinstance(self.trace, TracedCase) else {}

    def shapes(self, sizes: Assignment, most: int = MOST_ELEMENTS) -> dict[str, tuple[int, ...]] | None:
        """The shape of every tensor variable; None when a dim is negative or the tensors have more than `most` elements together."""
        values: dict[Atom, Dim] = {Symbol(name): value for name, value in sizes.items()}
        shapes, elements = {}, 0
        for variable in self.rule.signature().tensors:
            shape, count = [], 1
            for dim in variable.shape(dict(self.case.stars)):
                try:
                    size = substitute(dim, values)
                except ZeroDivisionError:
                    return None
                if not isinstance(size, int) or size < 0:
                    return None
                shape.append(size)
                count *= size
            elements += count
            shapes[variable.name] = tuple(shape)
        return shapes if elements <= most else None


def landmarks(rule: type[Rule]) -> list[int]:
    """Whole numbers from 4 to 1024 in the code of both sides: sizes next to them may matter."""
    found = {n for side in (rule.pattern, rule.replacement) for n in _constants(side) if type(n) is int and 4 <= n <= 1024}
    return sorted(found)


def written_numbers(rule: type[Rule]) -> list[float]:
    """Numbers in the code of both sides and of the conditions that are not drawn anyway: something may happen there."""
    sides = [rule.pattern, rule.replacement, *(condition.predicate for condition in rule.requires)]
    numbers = {float(n) for side in sides for n in _constants(side) if type(n) in (int, float) and math.isfinite(n)}
    return sorted(n for n in numbers if abs(n) <= 1e6 and (abs(n) > 4 or n != round(2 * n) / 2))


def _constants(function: Any) -> Iterator[Any]:
    """Every constant in a function's code, in what it defines, and in the variables and functions around it that it uses."""
    pending, seen = [function], set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        code = getattr(part, "__code__", part)
        for constant in getattr(code, "co_consts", ()):
            yield from constant if isinstance(constant, tuple) else (constant,)
            if hasattr(constant, "co_consts"):
                pending.append(constant)
        known = getattr(part, "__globals__", {})
        around = [known[name] for name in getattr(code, "co_names", ()) if name in known]
        around += inspect.getclosurevars(part).nonlocals.values() if isinstance(part, FunctionType) else ()
        yield from (value for value in around if isinstance(value, (int, float)))
        pending += [value for value in around if isinstance(value, FunctionType) and value.__globals__ is known]


class Space:
    """Every instance of a rule that tests may draw."""

    def __init__(self, rule: type[Rule], seed: int = 0, most_cases: int = 24) -> None:
        self.rule, self.seed = rule, seed
        self.signature = rule.signature()
        chosen = list(drawn_cases(rule))
        if len(chosen) > most_cases:
            source = random.Random(seed)
            chosen = chosen[: most_cases // 3] + source.sample(chosen[most_cases // 3 :], most_cases - most_cases // 3)
        self.grounds = [Ground(rule, case, seed + position) for position, case in enumerate(chosen)]
        self.value_conditions = [c for c in rule.requires if not speaks_of_sizes(rule, c)]
        self.written = written_numbers(rule)

    @cached_property
    def usable(self) -> list[Ground]:
        """The cases for which sizes were found."""
        return [ground for ground in self.grounds if ground.pool]

    @cached_property
    def places(self) -> list[tuple[Ground, Assignment]]:
        """Every case with each of its sizes, the smallest first."""
        found = [(ground, sizes) for ground in self.usable for sizes in ground.pool if ground.shapes(sizes) is not None]
        return sorted(found, key=lambda place: place[0].model.weight(place[1])[:2])

    def dtypes(self, family: str) -> dict[str, str]:
        """A dtype for each tensor variable when its free float (or integer) dtype is `family`."""
        chosen = {}
        for variable in self.signature.tensors:
            allowed = allowed_dtypes(variable)
            fallback = allowed[0] if kind_of(family) != kind_of(allowed[0]) else _nearest(family, allowed)
            chosen[variable.name] = family if family in allowed else fallback
        return chosen

    @cached_property
    def families(self) -> list[str]:
        """The dtypes that the rule leaves open, float64 first; one entry where it leaves none open."""
        families = dict.fromkeys(dtype for v in self.signature.tensors for dtype in allowed_dtypes(v))
        ordered = [dtype for dtype in (*FLOATS, *INTEGERS, "bool", "complex128") if dtype in families]
        return ordered or ["float64"]

    def build(
        self, ground: Ground, sizes: Assignment, values: str, family: str, seed: int, layouts: Sequence[str] = (), share: int = 0
    ) -> Instance | None:
        """The instance of these choices; None when it does not exist or no values meeting the conditions were found.

        Special values come with filled tensors only: what NaN does to an empty sum tells nothing.
        """
        shapes = ground.shapes(sizes)
        if shapes is None or (values in (SPECIAL, EXTREME) and not all(all(shape) for shape in shapes.values())):
            return None
        dtypes = self.dtypes(family)
        names = [variable.name for variable in self.signature.tensors]
        shared = _shared(names, shapes, dtypes, share)
        for attempt in range(16 if self.value_conditions else 1):
            source = random.Random(seed * 31 + attempt)
            kind = values if attempt < 8 else POSITIVE
            reals = {v.name: draw_number(kind, source) for v in self.signature.variables if isinstance(v, RealVariable)}
            scale = source.randrange(256) if source.random() < 0.5 else 0
            kinds = self.kinds(kind)
            tensors = {name: draw_values(kinds[name], shapes[name], dtypes[name], source.randrange(1 << 30), scale) for name in names}
            if self.written and source.random() < 0.5:
                tensors = {name: self.with_written(tensor, kinds[name], source) for name, tensor in tensors.items()}
                reals = {name: source.choice((value, *self.written)) for name, value in reals.items()}
            turned = bool(ground.positions) and source.random() < 0.2
            tensors |= {name: read.within(tensors[name], sizes, turned) for name, read in ground.positions.items()}
            tensors = {name: tensors[shared.get(name, name)] for name in names}
            instance = Instance(
                self.rule, ground.case, sizes, reals, tensors, dict(zip(names, layouts, strict=False)), shared, values, seed
            )
            instance = self.mended(instance, kind, source)
            if attempt >= 4 and attempt % 2:
                instance = self.modelled(instance, source)
            if all(condition_holds(instance, condition) for condition in self.value_conditions):
                return instance
        return None

    def with_written(self, tensor: torch.Tensor, kind: str, source: random.Random) -> torch.Tensor:
        """A floating tensor with numbers that the rule writes, or their opposites, for some elements; ordinary numbers lie around them."""
        if not tensor.is_floating_point() or kind in (WIDE, EXTREME):
            return tensor
        generator = torch.Generator().manual_seed(source.randrange(1 << 30))
        number = torch.tensor([sign * n for n in self.written for sign in (1, -1)], dtype=torch.float64)
        drawn = number[torch.randint(0, len(number), tensor.shape, generator=generator)]
        taken = torch.rand(tensor.shape, generator=generator) < source.choice((0.3, 1.0))
        return torch.where(taken, drawn + tensor.double() if kind == ORDINARY else drawn, tensor.double()).to(tensor.dtype)

    def kinds(self, kind: str) -> dict[str, str]:
        """The kind of values for each tensor: of a rule over the reals, weights are ordinary numbers where data are special."""
        tame = kind == SPECIAL and not self.rule.equality.bitwise
        return {v.name: ORDINARY if tame and v.weight else kind for v in self.signature.tensors}

    @cached_property
    def models(self) -> list[dict[str, float]]:
        """Joint values of the names in the conditions, found by Z3 and kept when each condition accepts them."""
        tensors = self.signature.tensors
        ranges = {v.name: _range(allowed_dtypes(v)) for v in tensors if kind_of(allowed_dtypes(v)[0]) == "int"}
        whole = set(ranges) | (set(self.signature.symbols) - {v.name for v in tensors})
        return conditions.models(self.value_conditions, whole, ranges, random.Random(self.seed))

    def modelled(self, instance: Instance, source: random.Random) -> Instance:
        """The instance with elements from Z3's models of the conditions: one model each element where the shapes agree, else one in all."""
        if not self.models:
            return instance
        named = [name for name in self.models[0] if name in instance.tensors]
        same = len({instance.tensors[name].shape for name in named}) == 1
        tensors, reals = dict(instance.tensors), dict(instance.reals)
        chosen = [source.choice(self.models)] if not same or any(name in reals for name in self.models[0]) else self.models
        elements = max((tensors[name].numel() for name in named), default=0)
        picks = torch.tensor([source.randrange(len(chosen)) for _ in range(elements)], dtype=torch.int64)
        for name in named:
            tensor = tensors[name]
            values = torch.tensor([model[name] for model in chosen], dtype=torch.float64 if tensor.is_floating_point() else torch.int64)
            tensors[name] = (values[picks].reshape(tensor.shape) if same else values[:1].expand(tensor.numel()).reshape(tensor.shape)).to(
                tensor.dtype
            )
        reals |= {name: float(value) for name, value in chosen[0].items() if name in reals}
        return replace(instance, tensors=tensors, reals=reals, shared={})

    def mended(self, instance: Instance, kind: str, source: random.Random) -> Instance:
        """The instance with elements that fail a condition on one tensor drawn anew among those that meet it."""
        for condition in self.value_conditions:
            if len(condition.names) != 1 or condition_holds(instance, condition):
                continue
            (name,) = condition.names
            if name in instance.reals:
                for _ in range(40):
                    instance = replace(instance, reals={**instance.reals, name: draw_number(kind, source)})
                    if condition_holds(instance, condition):
                        break
            elif name in instance.tensors:
                instance = _mend_elements(instance, name, condition, kind, source)
        return instance


def _range(dtypes: Sequence[str]) -> tuple[int, int]:
    limits = [torch.iinfo(getattr(torch, dtype)) for dtype in dtypes if kind_of(dtype) == "int"]
    return max(limit.min for limit in limits), min(limit.max for limit in limits)


def _mend_elements(instance: Instance, name: str, condition: Requires, kind: str, source: random.Random) -> Instance:
    tensor = instance.tensors[name]
    for _ in range(6):
        fine = elementwise(condition, tensor)
        if fine is None or bool(fine.all()):
            break
        other = draw_values(kind, tensor.shape, str(tensor.dtype).removeprefix("torch."), source.randrange(1 << 30))
        other = other.abs() if source.random() < 0.5 and other.dtype != torch.bool else other
        tensor = torch.where(fine, tensor, other)
    same = [
        n
        for n in instance.tensors
        if n == name or instance.shared.get(n) == name or instance.shared.get(name) in (n, instance.shared.get(n, ""))
    ]
    return replace(instance, tensors={n: tensor if n in same else t for n, t in instance.tensors.items()})


def elementwise(condition: Requires, tensor: torch.Tensor) -> torch.Tensor | None:
    """For which elements a condition on one tensor holds; None when it does not say so per element."""
    try:
        answer = condition.predicate(tensor)
    except (RuntimeError, TypeError, ValueError):
        return None
    return answer if isinstance(answer, torch.Tensor) and answer.shape == tensor.shape and answer.dtype == torch.bool else None


def condition_holds(instance: Instance, condition: Requires) -> bool:
    """A condition of the rule on the instance's own numbers."""
    known = instance.named
    values = [known[name] if name in known else instance.sizes[name] for name in condition.names]
    answer = condition.predicate(*values)
    return bool(answer.all()) if isinstance(answer, torch.Tensor) else bool(answer)


def allowed_dtypes(variable: TensorVariable) -> tuple[str, ...]:
    """The dtypes with which a tensor variable is tested."""
    if len(variable.dtypes) == 1:
        return variable.dtypes
    return _KINDS.get(variable.kind, FLOATS)


def _nearest(family: str, allowed: Sequence[str]) -> str:
    return next((dtype for dtype in allowed if kind_of(dtype) == kind_of(family)), allowed[0])


def _shared(names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], share: int) -> dict[str, str]:
    """The `share`-th pair of variables of one type bound to one tensor; none for 0."""
    pairs = [
        (b, a) for j, b in enumerate(names) for a in names[:j] if shapes[a] == shapes[b] and dtypes[a] == dtypes[b]
    ]  # fmt: skip
    if not share or not pairs:
        return {}
    return dict([pairs[share % len(pairs)]])


@st.composite
def instances(draw: Any, space: Space, values: Sequence[str], families: Sequence[str], plain: bool = False) -> Instance | None:
    """Instances of the rule: the smallest sizes and simplest values first, None where a draw has no instance.

    `values` and `families` are the kinds of values and the dtypes to draw from; `plain` leaves layouts and sharing aside.
    """
    ground, sizes = space.places[draw(st.integers(0, len(space.places) - 1))]
    ways = [(kind, family) for kind in values for family in families]
    kind, family = ways[draw(st.integers(0, len(ways) - 1))] if len(ways) > 1 else ways[0]
    seed = draw(st.integers(0, 1 << 16))
    variables = len(space.signature.tensors)
    choice = 0 if plain else draw(st.integers(0, 4 * len(LAYOUTS) ** min(variables, 6) - 1))
    if not choice:
        return space.build(ground, sizes, kind, family, seed)
    share, choice = choice % 4, choice // 4
    layouts = []
    for _ in range(variables):
        layouts.append(LAYOUTS[choice % len(LAYOUTS)])
        choice //= len(LAYOUTS)
    return space.build(ground, sizes, kind, family, seed, layouts, share)


__all__ = ["FLOATS", "INTEGERS", "Ground", "Instance", "Space", "allowed_dtypes", "condition_holds", "elementwise", "instances"]
