"""How two outcomes differ: in shape, dtype, value, floating-point class, rounding, or in what else the sides did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from rewrites.rule import Change, Equality
from verifier.instances import Instance
from verifier.judging import Judgement, Kind
from verifier.running import Outcome

CHANGES = {Kind.SIGNED_ZERO: Change.SIGNED_ZERO, Kind.NAN_INF: Change.NAN_INF, Kind.OVERFLOW: Change.OVERFLOW}
"""What a rule can declare to change."""


@dataclass(frozen=True)
class Difference:
    """One difference: its kind, a sentence, and for values the first differing element of which output."""

    kind: Kind
    sentence: str
    output: int = 0
    index: tuple[int, ...] = ()
    left: str = ""
    right: str = ""


@dataclass(frozen=True)
class Standard:
    """What counts as a difference: the rule's equality, and whether both sides round.

    Where both sides of a REAL rule round, the sign of a zero and NaN instead of infinity come from the order of roundings and
    count as rounding; a side that rounds nothing (x itself, a constant, a maximum) leaves no rounding to blame.
    """

    equality: Equality
    both_round: bool = True
    copies: bool = False
    """The pattern copies on purpose (`clone`): then its outputs' memory of their own must stay."""

    @property
    def strict(self) -> bool:
        """Zeros' signs and the kinds of non-finite results count."""
        return self.equality.bitwise or not self.both_round

    def allows(self, kind: Kind) -> bool:
        """The rule declares this kind of change, or it is no change for its equality."""
        if kind is Kind.ROUNDING:
            return not self.equality.bitwise
        if kind is Kind.SIGNED_ZERO and not self.strict:
            return True
        return CHANGES.get(kind) in self.equality.changes


def compare(instance: Instance, left: Outcome, right: Outcome, standard: Standard, seen: set[Kind] | None = None) -> Difference | None:
    """The first difference that the standard does not allow, structure before values before effects.

    `seen` gathers the kinds of floating-point differences, allowed or not.
    """
    structural = _structure(left, right)
    if structural is not None:
        return structural
    differences = _values(instance, left.outputs, right.outputs, standard)
    if seen is not None:
        seen.update(difference.kind for difference in differences)
    found = [difference for difference in differences if not standard.allows(difference.kind)]
    if found:
        return found[0]
    return _effects(instance, left, right, standard)


def _structure(left: Outcome, right: Outcome) -> Difference | None:
    if right.error is not None:
        text = " ".join(str(right.error).split("\n")[0].split())
        return Difference(Kind.ERROR, f"the replacement raises {type(right.error).__name__}: {text}")
    if len(left.outputs) != len(right.outputs):
        return Difference(Kind.COUNT, f"the pattern has {len(left.outputs)} outputs, the replacement {len(right.outputs)}")
    for position, (a, b) in enumerate(zip(left.outputs, right.outputs, strict=True)):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return Difference(
                Kind.DTYPE, f"output {position} is a {type(a).__name__} on one side and a {type(b).__name__} on the other", position
            )
        if not isinstance(a, torch.Tensor):
            if a != b:
                return Difference(Kind.VALUE, f"output {position} differs", position, (), str(a), str(b))
        elif a.shape != b.shape:
            one, other = str(list(a.shape)), str(list(b.shape))
            return Difference(
                Kind.SHAPE, f"output {position} has shape {one} by the pattern, {other} by the replacement", position, (), one, other
            )
        elif a.dtype != b.dtype:
            return Difference(
                Kind.DTYPE,
                f"output {position} is {a.dtype} by the pattern, {b.dtype} by the replacement",
                position,
                (),
                str(a.dtype),
                str(b.dtype),
            )
    return None


def _values(instance: Instance, left: Sequence[Any], right: Sequence[Any], standard: Standard) -> list[Difference]:
    found: list[Difference] = []
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if isinstance(a, torch.Tensor) and a.numel():
            found += [replace(d, output=position) for d in _tensor_differences(instance, a, b, standard, output=position)]
    order = list(Kind)
    return sorted(found, key=lambda d: order.index(d.kind))


def _tensor_differences(
    instance: Instance, a: torch.Tensor, b: torch.Tensor, standard: Standard, what: str = "the outputs", output: int | None = None
) -> list[Difference]:
    a, b = a.detach(), b.detach()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if not a.is_floating_point():
        if torch.equal(a, b):
            return []
        kind, seen = Judgement.of(instance).judge_exact(a != b, output)
        return [_at(kind, _VALUE_SENTENCE[kind].format(what=what), a, b, seen)]
    same = ((a == b) & (torch.signbit(a) == torch.signbit(b))) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return []
    found = []
    finite = a.isfinite() & b.isfinite()
    off = finite & (a != b)
    if bool(off.any()):
        kind, seen = Judgement.of(instance).judge(a, b, off, output)
        found.append(_at(kind, _VALUE_SENTENCE[kind].format(what=what), a, b, seen))
    class_differs = ~same & ~finite if standard.strict else a.isfinite() != b.isfinite()
    if bool(class_differs.any()):
        kind, seen = Judgement.of(instance).judge_classes(a, b, class_differs, output)
        found.append(_at(kind, _CLASS_SENTENCE[kind], a, b, seen))
    zeros = finite & (a == b) & ~same
    if bool(zeros.any()):
        found.append(_at(Kind.SIGNED_ZERO, "the sign of a zero differs", a, b, zeros))
    return found


_CLASS_SENTENCE = {
    Kind.UNDEFINED: "the replacement is NaN or infinite where the pattern is a number, of finite inputs",
    Kind.VALUE: "one side is NaN or infinite where its operator means a finite number",
    Kind.NAN_INF: "one side is NaN or infinite where the other is not",
    Kind.OVERFLOW: "one side leaves the dtype's range where the other does not",
}
_VALUE_SENTENCE = {
    Kind.VALUE: "{what} differ",
    Kind.ROUNDING: "{what} differ by rounding",
    Kind.NAN_INF: "{what} differ where an input is NaN or infinite",
    Kind.OVERFLOW: "{what} differ where an intermediate leaves the dtype's range",
}


def _at(kind: Kind, sentence: str, a: torch.Tensor, b: torch.Tensor, where: torch.Tensor) -> Difference:
    index = tuple(int(i) for i in where.nonzero()[0]) if where.ndim else ()
    return Difference(kind, sentence, 0, index, repr(a[index].item()), repr(b[index].item()))


def _effects(instance: Instance, left: Outcome, right: Outcome, standard: Standard) -> Difference | None:
    names = instance.rule.signature().names
    for name, before, a, b in zip(names, instance.arguments(), left.arguments, right.arguments, strict=True):
        if not isinstance(a, torch.Tensor):
            continue
        if a.shape != b.shape:
            return Difference(Kind.MUTATION, f"the pattern leaves {name} with shape {list(a.shape)}, the replacement with {list(b.shape)}")
        for difference in _tensor_differences(instance, a, b, standard, f"the contents of {name} afterwards"):
            if not standard.allows(difference.kind):
                writer = "the replacement writes" if _same(before, a) else "the pattern writes" if _same(before, b) else "both sides write"
                return replace(difference, kind=Kind.MUTATION, sentence=f"{writer} into {name}, and its contents differ afterwards")
    if left.random_state is not None and right.random_state is not None and not torch.equal(left.random_state, right.random_state):
        return Difference(Kind.RANDOMNESS, "the two sides draw different random numbers")
    for output, position in sorted(right.aliased - left.aliased) if standard.copies else ():
        sentence = f"the pattern's output {output} is a copy of its own, the replacement's shares the memory of {names[position]}"
        return Difference(Kind.ALIASING, sentence, output)
    return None


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


__all__ = ["CHANGES", "Difference", "Standard", "compare"]
