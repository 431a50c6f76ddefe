"""Of what kind the difference between two outcomes is: a wrong value, rounding, or a change in floating-point class.

Rounding is told from a wrong value by a bound and by scaling. The bound is u · N · (M + A): u the dtype's unit roundoff, N the
roundings an output element can pass through (the operands' elements, summed over the calls), M the largest intermediate
magnitude and A how strongly the outputs react to relative changes of the inputs (measured). And a difference that float32 does
not show much larger than float64 is no rounding. Where every intermediate is a whole number below 2^53, the bound is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from operators.operator import operator_for
from verifier.instances import Instance
from verifier.meant import is_meant
from verifier.running import Call, Outcome, record, run


class Kind(StrEnum):
    """What differs between the two sides of a rule."""

    ERROR = "error"
    COUNT = "number of outputs"
    SHAPE = "shape"
    DTYPE = "dtype"
    VALUE = "value"
    UNDEFINED = "undefined"
    NAN_INF = "NaN/inf"
    OVERFLOW = "overflow range"
    SIGNED_ZERO = "signed zero"
    ROUNDING = "rounding"
    MUTATION = "mutation"
    RANDOMNESS = "randomness"
    ALIASING = "aliasing"
    GRADIENT = "gradient"


class Judgement:
    """What is known of one instance when its sides differ: recorded calls, magnitudes, sensitivity."""

    _last: tuple[Instance, Judgement] | None = None

    @classmethod
    def of(cls, instance: Instance) -> Judgement:
        """The judgement of the instance; the last one is kept."""
        if cls._last is None or cls._last[0] is not instance:
            cls._last = (instance, cls(instance))
        return cls._last[1]

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.sides: list[list[Any]] = []
        self.calls: list[Call] = []
        for function in (instance.rule.pattern, instance.rule.replacement):
            self.calls += record(function, instance.arguments(), instance.seed)[1]
        self.tensors = [t.detach() for t in instance.tensors.values()] + [t.detach() for call in self.calls for t in call.tensors()]
        self.inputs_finite = all(bool(t.isfinite().all()) for t in instance.tensors.values() if t.is_floating_point()) and all(
            math.isfinite(x) for x in instance.reals.values()
        )

    def judge(self, a: torch.Tensor, b: torch.Tensor, off: torch.Tensor, output: int | None = None) -> tuple[Kind, torch.Tensor]:
        """The kind of a difference between finite elements, and the elements that show it."""
        distance = (a.double() - b.double()).abs()
        beyond = off & (distance > self.bounds(a) + self.reach_of_subnormals(output))
        if bool(beyond.any()) and not self.shrinks_with_precision(float(distance[beyond].max()), a.dtype):
            if not self.inputs_finite:
                tame = self.tamed(output)
                if tame is None or not bool((beyond & tame.apart(output)).any()):
                    return Kind.NAN_INF, beyond
                return tame.judge(*tame.outputs(output), beyond & tame.apart(output), output)
            if any(not bool(t.isfinite().all()) for t in self.tensors if t.is_floating_point()):
                firm = beyond & self.firm(a, output)
                return (Kind.VALUE, firm) if bool(firm.any()) else (self.origin() or Kind.VALUE, beyond)
            return Kind.VALUE, beyond
        return Kind.ROUNDING, off

    def judge_exact(self, off: torch.Tensor, output: int | None = None) -> tuple[Kind, torch.Tensor]:
        """The kind of a difference between truths or whole numbers, and the elements that show it."""
        if self.inputs_finite:
            return Kind.VALUE, off
        tame = self.tamed(output)
        if tame is None or not bool((off & tame.apart(output)).any()):
            return Kind.NAN_INF, off
        return Kind.VALUE, off & tame.apart(output)

    def tamed(self, output: int | None) -> Judgement | None:
        """The judgement of the instance with 1 for every element that is not finite; None where its output cannot be compared."""
        if output is None or any(not math.isfinite(x) for x in self.instance.reals.values()):
            return None
        tensors = {
            n: torch.where(t.isfinite(), t, torch.ones_like(t)) if t.is_floating_point() else t for n, t in self.instance.tensors.items()
        }
        tame = Judgement(replace(self.instance, tensors=tensors))
        sides = [
            run(side, tame.instance.arguments(), tame.instance.seed)
            for side in (tame.instance.rule.pattern, tame.instance.rule.replacement)
        ]
        if any(side.error is not None or len(side.outputs) <= output for side in sides):
            return None
        tame.sides = [side.outputs for side in sides]
        return tame

    def outputs(self, output: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The output by both sides."""
        assert output is not None
        return self.sides[0][output].detach(), self.sides[1][output].detach()

    def apart(self, output: int | None) -> torch.Tensor:
        """Which elements of the output differ between the sides."""
        a, b = self.outputs(output)
        return ~((a == b) | ((a != a) & (b != b)))

    def judge_classes(self, a: torch.Tensor, b: torch.Tensor, where: torch.Tensor, output: int | None = None) -> tuple[Kind, torch.Tensor]:
        """The kind of a difference between a number and what is none, and the elements that show it.

        It comes from NaN, infinite or undefined operands, or from leaving the dtype's range. To lose what is undefined is a change
        that a rule may declare; to be undefined where the pattern is not, and the inputs are finite, is a kind of its own.
        """
        if not self.inputs_finite:
            tame = self.tamed(output)
            if tame is None or not bool((where & tame.apart(output)).any()):
                return Kind.NAN_INF, where
            return tame.judge_classes(*tame.outputs(output), where & tame.apart(output), output)
        gained = where & ~b.isfinite() & self.firm(a, output)
        if bool(gained.any()) and bool((gained := gained & self.gained_in_double(gained, output)).any()):
            return Kind.UNDEFINED, gained
        return self.origin() or Kind.NAN_INF, where

    def firm(self, a: torch.Tensor, output: int | None) -> torch.Tensor:
        """Where the pattern's output is a number that does not depend on what functions give outside their domains.

        Nowhere where numbers left the dtype's range besides.
        """
        if output is None or not self.steps_outside_a_domain():
            return torch.zeros_like(a, dtype=torch.bool)
        firm: torch.Tensor = a.isfinite()
        for number in (0.0, 1.0, -1.0, 1e9, -1e9):
            other = run(_under(_Filling(number), self.instance.rule.pattern), self.instance.arguments(), self.instance.seed)
            if other.error is not None:
                return torch.zeros_like(firm)
            firm = firm & (other.outputs[output] == a)
        return firm

    def steps_outside_a_domain(self) -> bool:
        """A function was called where it has no value, and nothing that was called of finite numbers left the dtype's range."""
        found = False
        for call in self.calls:
            operands, results = _leaves(call)
            if _underflows(_short_name(call), operands, results):
                return False
            if all(map(_finite, operands)) and not all(map(_finite, results)):
                pole = any(map(_has_zero, operands)) or any(bool(result.isnan().any()) for result in results)
                if _short_name(call) not in _PARTIAL or not pole:
                    return False
                found = True
        return found

    def gained_in_double(self, where: torch.Tensor, output: int | None) -> torch.Tensor:
        """Where the output is a number by the pattern alone in float64 too, which holds the same inputs exactly."""
        fine = self.instance.with_dtype(torch.float64)
        left, right = (run(side, fine.arguments(), fine.seed) for side in (fine.rule.pattern, fine.rule.replacement))
        if left.error is not None or right.error is not None or output is None:
            return torch.zeros_like(where)
        gained: torch.Tensor = left.outputs[output].isfinite() & ~right.outputs[output].isfinite()
        return gained

    def origin(self) -> Kind | None:
        """How numbers that are not finite came out of finite ones; None where none did.

        An infinity that the rule writes itself (a mask) is no accident: finite results that differ beside it differ in value.
        """
        for call in self.calls:
            operands, results = _leaves(call)
            name = _short_name(call)
            if all(_finite(x) for x in operands) and not all(_finite(x) for x in results):
                return Kind.NAN_INF if name in _PARTIAL else Kind.OVERFLOW if is_meant(call) else Kind.VALUE
            if _underflows(name, operands, results):
                return Kind.OVERFLOW
        return None

    def bound(self, dtype: torch.dtype) -> float:
        """The most by which rounding can move an output element."""
        floating = [t for t in self.tensors if t.is_floating_point() and t.numel()]
        if all(_whole(t) for t in floating):
            return 0.0
        largest = max((float(t[t.isfinite()].abs().max()) for t in floating if bool(t.isfinite().any())), default=1.0)
        roundings = 2 + sum(max((t.numel() for t in call.tensors()), default=1) for call in self.calls)
        unit = max(torch.finfo(t.dtype).eps for t in floating) / 2 if floating else torch.finfo(dtype).eps / 2
        return unit * roundings * (largest + self.sensitivity())

    def bounds(self, output: torch.Tensor) -> torch.Tensor | float:
        """The bound of each output element where every call is pointwise on tensors of the output's shape, else the one of all elements."""
        floating = [t for t in self.tensors if t.is_floating_point()]
        alike = output.numel() > 1 and all(t.shape == output.shape or t.numel() == 1 for t in self.tensors)
        if not alike or not all(map(_is_pointwise, self.calls)) or all(_whole(t) for t in floating):
            return self.bound(output.dtype)
        largest = torch.zeros(output.shape, dtype=torch.float64)
        for tensor in floating:
            largest = torch.maximum(largest, torch.where(tensor.isfinite(), tensor.double().abs(), 0.0).expand(output.shape))
        unit = max(torch.finfo(t.dtype).eps for t in floating) / 2
        return unit * 2 * (2 + len(self.calls)) * (largest + self.reactions(output))

    def reactions(self, output: torch.Tensor) -> torch.Tensor:
        """How strongly each element of an output of this shape reacts to relative changes of the inputs (measured)."""
        worst = torch.zeros(output.shape, dtype=torch.float64)
        for base, moved, step in self.moves():
            for a, b in zip(base.outputs, moved.outputs, strict=False):
                if isinstance(a, torch.Tensor) and a.shape == output.shape and a.is_floating_point():
                    gap = (a.detach().double() - b.detach().double()).abs() / step
                    worst = torch.maximum(worst, torch.where(gap.isfinite(), gap, 0.0))
        return worst

    def sensitivity(self) -> float:
        """The largest change of an output per relative change of the inputs, over both sides and three random directions."""
        return max((_distance(base.outputs, moved.outputs) / step for base, moved, step in self.moves()), default=0.0)

    def moves(self) -> Iterator[tuple[Outcome, Outcome, float]]:
        """Outcomes of each side on the inputs and on the inputs changed by a relative step in a random direction."""
        generator = torch.Generator().manual_seed(self.instance.seed)
        for function in (self.instance.rule.pattern, self.instance.rule.replacement):
            base = run(function, self.instance.arguments(), self.instance.seed)
            for _ in range(3):
                arguments, step = [], 0.0
                for value in self.instance.arguments():
                    if isinstance(value, torch.Tensor) and value.is_floating_point():
                        step = math.sqrt(torch.finfo(value.dtype).eps)
                        signs = torch.randint(0, 2, value.shape, generator=generator).double() * 2 - 1
                        value = value * (1 + step * signs).to(value.dtype)
                    arguments.append(value)
                moved = run(function, arguments, self.instance.seed)
                if step and moved.error is None and base.error is None:
                    yield base, moved, step

    def reach_of_subnormals(self, output: int | None) -> torch.Tensor | float:
        """How far each element of the output moves where every subnormal result moves by its spacing, twice over.

        Below the smallest normal number the spacing no longer shrinks with the number, so rounding there is relatively coarse.
        """
        if output is None or not any(map(_has_subnormals, self.tensors)):
            return 0.0
        reach: torch.Tensor | float = 0.0
        for side in (self.instance.rule.pattern, self.instance.rule.replacement):
            base, moved = (run(f, self.instance.arguments(), self.instance.seed) for f in (side, _under(_SteppingSubnormals(), side)))
            if base.error is None and moved.error is None:
                gap = 2 * (base.outputs[output].detach().double() - moved.outputs[output].detach().double()).abs()
                reach = torch.maximum(torch.as_tensor(reach).double(), torch.where(gap.isfinite(), gap, 0.0))
        return reach

    def shrinks_with_precision(self, distance: float, dtype: torch.dtype) -> bool:
        """The sides lie so much further apart in a coarser dtype, or closer in float64, that the distance is rounding."""
        if dtype != torch.float64:
            return self.vanishes_in_double(distance)
        coarse = self.instance.with_dtype(torch.float32)
        left = run(coarse.rule.pattern, coarse.arguments(), coarse.seed)
        right = run(coarse.rule.replacement, coarse.arguments(), coarse.seed)
        if left.error is not None or right.error is not None:
            return False
        return _distance(left.outputs, right.outputs) * SHRINKAGE > distance

    def vanishes_in_double(self, distance: float) -> bool:
        """In float64, which holds the same inputs exactly, the sides agree: what they differ by in a coarser dtype is rounding."""
        fine = self.instance.with_dtype(torch.float64)
        left = run(fine.rule.pattern, fine.arguments(), fine.seed)
        right = run(fine.rule.replacement, fine.arguments(), fine.seed)
        if left.error is not None or right.error is not None:
            return False
        doubles = all(t.dtype == torch.float64 for t in (*left.outputs, *right.outputs) if isinstance(t, torch.Tensor))
        return doubles and _distance(left.outputs, right.outputs) < distance * SHRINKAGE


SHRINKAGE = math.sqrt(torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps)
"""Rounding shrinks with the unit roundoff, by 2^-29 from float32 to float64 (more from coarser dtypes), and a wrong value does not
shrink at all: the line is drawn at the geometric mean of the two, 2^-14.5."""

_PARTIAL = {
    "div", "divide", "true_divide", "truediv", "rtruediv", "rdiv", "reciprocal", "log", "log2", "log10", "log1p", "rsqrt", "sqrt",
    "pow", "rpow", "acos", "asin", "atanh", "acosh", "fmod", "remainder", "floor_divide", "mean", "var", "std", "logit", "tan",
    "batch_norm", "layer_norm", "group_norm", "softmax", "log_softmax",
}  # fmt: skip

_UNDERFLOWING = {"exp", "exp2", "mul", "rmul", "div", "true_divide", "truediv", "pow", "square", "reciprocal", "sigmoid"}


class _Filling(TorchFunctionMode):
    """Gives a number wherever a function has no value, or no finite one."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def __torch_function__(self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        call = Call(function, args, kwargs or {}, function(*args, **(kwargs or {})))
        if _short_name(call) not in _PARTIAL or not isinstance(call.result, torch.Tensor) or not call.result.is_floating_point():
            return call.result
        return torch.where(call.result.isfinite(), call.result, self.number)


class _SteppingSubnormals(TorchFunctionMode):
    """Moves every subnormal result to its neighbour away from zero."""

    def __torch_function__(self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or not _has_subnormals(result):
            return result
        return torch.where(_subnormal(result), torch.nextafter(result, result.sign() * math.inf), result)


def _under(mode: TorchFunctionMode, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called under the mode."""

    def wrapped(*arguments: Any) -> Any:
        with mode:
            return function(*arguments)

    return wrapped


def _subnormal(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor != 0) & (tensor.abs() < torch.finfo(tensor.dtype).tiny)


def _has_subnormals(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(_subnormal(tensor).any())


def _leaves(call: Call) -> tuple[list[torch.Tensor | float], list[torch.Tensor]]:
    """The call's operands and results."""
    operands = [leaf for leaf in pytree.tree_leaves((call.arguments, call.keywords)) if isinstance(leaf, (torch.Tensor, float))]
    return operands, [leaf for leaf in pytree.tree_leaves(call.result) if isinstance(leaf, torch.Tensor)]


def _underflows(name: str, operands: Sequence[Any], results: Sequence[torch.Tensor]) -> bool:
    """A number has become 0 that is none."""
    if name.startswith("exp") and any(_vanishes(x, y) for x in operands for y in results):
        return True
    known = name in _UNDERFLOWING and all(map(_finite, operands)) and not any(map(_has_zero, operands))
    return known and any(map(_has_zero, results))


def _short_name(call: Call) -> str:
    return call.name.rpartition(".")[2].strip("_")


def _is_pointwise(call: Call) -> bool:
    declared = operator_for(call.function)
    return bool(getattr(declared, "pointwise", False)) or call.name.rpartition(".")[2] in _FILLING


_FILLING = {"zeros_like", "ones_like", "full_like", "clamp_min", "clamp_max", "clone", "detach", "to"}


def _vanishes(operand: Any, result: torch.Tensor) -> bool:
    """A finite element of the operand has become 0."""
    if not isinstance(operand, torch.Tensor) or operand.shape != result.shape:
        return False
    return bool(((result == 0) & operand.isfinite()).any())


def _has_zero(value: Any) -> bool:
    return bool((value == 0).any()) if isinstance(value, torch.Tensor) else value == 0


def _distance(left: Sequence[Any], right: Sequence[Any]) -> float:
    worst = 0.0
    for a, b in zip(left, right, strict=False):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.is_floating_point() and a.shape == b.shape and a.numel():
            gap = (a.detach().double() - b.detach().double()).abs()
            gap = gap[gap.isfinite()]
            worst = max(worst, float(gap.max()) if gap.numel() else 0.0)
    return worst


def _finite(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return math.isfinite(value)


def _whole(tensor: torch.Tensor) -> bool:
    limit = 2.0 / torch.finfo(tensor.dtype).eps
    return bool(((tensor == tensor.round()) & (tensor.abs() <= limit)).all())


__all__ = ["SHRINKAGE", "Judgement", "Kind"]
