"""Operations of discovery made from what `operators/` declares, for every operator that the vocabulary does not write by hand.

An operator takes part in the few forms that its sample calls show (an axis, an exponent, a slope): with the meaning that is declared for
it, computed modulo a prime, and the torch call that runs it as text.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator as python_operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch.overrides import resolve_name

from graphs.record import Recorded, RecordError, Recording
from operators.expressions import Expression, Symbol
from operators.operator import OPERATORS, Effect, Operator
from operators.samples.agreement import ROWS, cases
from operators.samples.drawing import Case
from rewrites.generator.residues import Operand, meaning_of
from rewrites.generator.vocabulary import SORTS, Operation
from rewrites.generator.world import WORLDS, World

_FORMS = 4
"""How many forms of one operator take part."""
_SAMPLES = 400
_RANKS = (None, 1, 2, 3, 4)
_OF_ONE_DTYPE = ("dtype=", "torch.float", "torch.bfloat16")
"""What a call says that holds for operands of the sample's dtype alone."""
_INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "matmul": "@"}


def names() -> list[str]:
    """Every operator that has sample calls, by its name."""
    return sorted(ROWS)


def declared(name: str) -> list[Operation]:
    """The forms in which the operator of this name takes part; none for a name that no operator has.

    Raises: ValueError for an operator that cannot: it draws, updates, has several results, or works on whole numbers or truths.
    """
    known = {key: full for full in ROWS for key in (full, *_spellings(OPERATORS.get(full), full))}
    full = known.get(name) or known.get(_plain(name))
    return [] if full is None else list(_forms(full))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _spellings(kind: type[Operator] | None, full: str) -> Iterator[str]:
    yield _plain(full)
    yield from (_plain(name) for name in (kind.torch_names if kind else ()))


@cache
def _forms(full: str) -> tuple[Operation, ...]:
    found: dict[tuple[str, tuple[int | None, ...]], tuple[tuple[object, ...], _Form]] = {}
    reason = "each sample call has other operands, or gives one back"
    for case in _drawn(full):
        template = [_place(operand) for operand in case.operands]
        ranks = tuple(_rank(operand) for operand in case.operands)
        if case.operator.effects & ~Effect.ALIASES or case.operator.multiple:
            reason = f"{case.operator} has several results, or an effect ({case.operator.effects})"
            continue
        if "tensor" not in template or not set(ranks) <= set(_RANKS):
            continue
        try:
            text = call_text(case.operator, template, case.operands)
        except _Unwritten as error:
            reason = str(error)
            continue
        if text != "{0}" and not any(word in text for word in _OF_ONE_DTYPE):
            form = _Form(full, case.operator, tuple(template), tuple(rank for rank in ranks if rank is not None), text)
            found[text, ranks] = form.unusualness, form
    chosen: dict[str, Operation] = {}
    for _, form in sorted(found.values(), key=lambda entry: entry[0]):
        if len(chosen) < _FORMS and form.kind not in chosen and not (chosen and 3 in form.ranks):
            operation = form.operation()
            if operation is not None:
                chosen[form.kind] = operation
    if not chosen:
        raise ValueError(f"{full}: must compute real numbers from matrices, images, sequences or vectors to take part; {reason}")
    if len(chosen) == 1:
        return tuple(chosen.values())
    return tuple(replace(o, name=f"{o.name}_{number}", word=f"{o.word}{number}") for number, o in enumerate(chosen.values(), 1))


@dataclass(frozen=True)
class _Form:
    """One call of an operator: what stands at its operands' places, the ranks of those that are tensors, its text."""

    full: str
    operator: Operator
    template: tuple[Operand | str, ...]
    ranks: tuple[int, ...]
    text: str

    @property
    def kind(self) -> str:
        """Forms are of one kind that differ in the numbers at their operands' places, or in the ranks they were seen with."""
        return f"{self.operator} {[place if place is None or isinstance(place, str) else 'number' for place in self.template]}"

    @property
    def unusualness(self) -> tuple[object, ...]:
        """What sorts the plain forms first: attributes as by default, operands that are terms, matrices and images, a short text."""
        fields = dataclasses.fields(self.operator)  # type: ignore[arg-type]
        changed = sum(getattr(self.operator, field.name) != field.default for field in fields)
        numbers = sum(not isinstance(place, str) for place in self.template)
        return 3 in self.ranks, changed, numbers, sum(rank == 1 for rank in self.ranks), len(self.text), self.text, self.ranks

    def operation(self) -> Operation | None:
        """The operation; None where no inputs fit it. Its operands have any rank where matrices fit, or the sample's ranks."""
        kernel = meaning_of(self.operator, self.template)
        matrices = (2,) * len(self.ranks)
        free = (self.ranks == matrices or ".shape[" not in self.text) and _fits(kernel, matrices)
        if not free and not _fits(kernel, self.ranks):
            return None
        commutative = self.operator.commutative and len(self.ranks) == 2 == len(self.template)
        ranks = (None,) * len(self.ranks) if free else self.ranks
        return Operation(self.full, ranks, kernel, self.text, commutative=commutative, word=self.full, declared=True)


def _drawn(full: str) -> list[Case]:
    """Sample calls, the same each time."""
    drawn: list[Case] = []

    quiet = list(HealthCheck)

    @settings(max_examples=_SAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=quiet)
    @given(cases(full))
    def collect(case: Case) -> None:
        drawn.append(case)

    collect()
    return drawn


def _place(operand: Any) -> Operand | str:
    """`tensor` for a tensor; numbers and None as they are."""
    return "tensor" if isinstance(operand, torch.Tensor) else operand


def _rank(operand: Any) -> int | None:
    """The rank of a floating-point tensor, -1 of another; None for what is no tensor."""
    if not isinstance(operand, torch.Tensor):
        return None
    return operand.ndim if operand.is_floating_point() else -1


def _fits(kernel: Callable[..., torch.Tensor], ranks: tuple[int, ...]) -> bool:
    """Whether there are inputs of these ranks of which the kernel makes more than nothing, one of them, or a constant."""
    shapes = {sort.name: [sort.shape(world) for world in WORLDS] for sort in SORTS.values()}
    distinct = {str(found): found for found in shapes.values()}.values()
    for picked in itertools.product(*([found for found in distinct if len(found[0]) == rank] for rank in ranks)):
        try:
            made = [_makes(kernel, world, [shape[i] for shape in picked]) for i, world in enumerate(WORLDS)]
        except (ValueError, IndexError):
            continue
        if any(made):  # in one world's order 6 may be below 0, and relu6 a constant
            return True
    return False


def _makes(kernel: Callable[..., torch.Tensor], world: World, shapes: Sequence[tuple[int, ...]]) -> bool:
    draws = [[world.draw((1, *shape)) for shape in shapes] for _ in range(2)]
    first, second = (kernel(world, *operands) for operands in draws)
    return first.numel() > 0 and not torch.equal(first, second) and not any(torch.equal(first, operand) for operand in draws[0])


class _Unwritten(ValueError):
    """A call that has no text of its own."""


def call_text(operator: Operator, template: Sequence[Operand | str], operands: Sequence[Any]) -> str:
    """The torch call that runs the operator, as a format string over the texts of its operands; the operands are examples.

    Raises: ValueError for a call that is more than one expression.
    """
    graph = torch.fx.Graph()
    recording = Recording(graph, None, {})
    recorded: list[Any] = []
    texts: dict[torch.fx.Node, str] = {}
    count = itertools.count()
    for operand, place in zip(operands, template, strict=True):
        if not isinstance(place, str):
            recorded.append(place)
            continue
        node = graph.placeholder(f"operand{next(count)}")
        texts[node] = f"{{{node.name.removeprefix('operand')}}}"
        sizes = tuple(Symbol(f"{node.name}.{axis}") for axis in range(operand.ndim))
        for axis, (symbol, size) in enumerate(zip(sizes, operand.shape, strict=True)):
            recording.hints[symbol] = size
            recording.symbols[symbol] = shape = graph.call_function(python_operator.getitem, (node, axis))
            texts[shape] = f"{texts[node]}.shape[{axis - operand.ndim}]"
        recorded.append(Recorded.of(node, operand.to("meta"), tuple(map(Expression.of, sizes))))
    try:
        with recording:
            result = operator.run(*recorded)
    except (RecordError, TypeError, RuntimeError, ValueError, NotImplementedError) as error:
        raise _Unwritten(f"its call cannot be recorded ({error})") from error
    if not isinstance(result, Recorded):
        raise _Unwritten(f"its call gives {type(result).__name__}")
    return _written(result.node, texts)


def _written(value: Any, texts: dict[torch.fx.Node, str]) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_written(part, texts) for part in value)}]"
    if isinstance(value, slice):
        return f"slice({', '.join(_written(part, texts) for part in (value.start, value.stop, value.step))})"
    if not isinstance(value, torch.fx.Node):
        if value is not None and not isinstance(value, (int, float, str, torch.dtype, torch.memory_format, type(...))):
            raise _Unwritten(f"its call has an argument {value!r}")
        return repr(value).replace("{", "{{").replace("}", "}}")
    if value in texts:
        return texts[value]
    arguments = [_written(argument, texts) for argument in value.args]
    named = [f"{name}={_written(argument, texts)}" for name, argument in value.kwargs.items()]
    if value.op == "call_method":
        return f"{arguments[0]}.{value.target}({', '.join([*arguments[1:], *named])})"
    target: Any = value.target
    if target is getattr:
        return f"{arguments[0]}.{value.args[1]}"
    if target is python_operator.getitem:
        index = value.args[1]
        return f"{arguments[0]}[{', '.join(_written(part, texts) for part in index) if isinstance(index, tuple) else arguments[1]}]"
    if target is torch.as_tensor and not named:
        return arguments[0]
    if getattr(target, "__module__", "") == "_operator" and target.__name__ in _INFIX:
        return f"({arguments[0]} {_INFIX[target.__name__]} {arguments[1]})"
    full = resolve_name(target) or f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', '')}"
    full = f"torch.ops.{full}" if full.startswith("aten.") else full
    if not full.startswith("torch."):
        raise _Unwritten(f"its call runs {full}")
    return f"{full.replace('torch.nn.functional.', 'F.')}({', '.join([*arguments, *named])})"
