"""The tests of a comparison: both sides run on drawn inputs, and what counts as a difference between their outputs.

In float64 the outputs may differ by rounding, and by what rounding the constants that only AFTER has can do. Rounding is bounded as in
`verifier.comparing`, with the roundings of a whole model taken as independent: n of them add up to λ·√n units but with probability
10⁻¹⁵ (Hoeffding's inequality; Higham and Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis", theorem 2.4). So an output
may be off by u·λ·√n·(M + A): u the unit roundoff of float64 (of a coarser dtype where an operator that nobody defined is kept, and
computes in it), n how many numbers both sides compute, M the output's largest magnitude, A how much it reacts to relative changes of
inputs and constants (measured). Constants of AFTER are each moved by their unit roundoff relative to their largest element in random
directions; what that does to an output is measured as well, and λ times it is allowed.

What is finite on one side must be finite on the other, and infinities must have one sign. NaN in place of an infinity is no
difference: ∞ − ∞ comes out of the order of roundings, as for rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from graphs.graph import Graph, Value
from graphs.structure import tensor_digest
from operators.expressions import Symbol
from operators.sources import Constant, Scalar
from verifier.equivalence.drawing import SPECIAL, draw
from verifier.equivalence.joining import Joined, OutputPair
from verifier.equivalence.observing import RunError, Trace, run

LIKELY = math.sqrt(2 * math.log(2e15))
"""λ, 8.4: but with probability 10⁻¹⁵ the sum of n independent errors of at most 1 stays below λ·√n (Hoeffding's inequality)."""
_DIRECTIONS = 3


@dataclass(frozen=True)
class Example:
    """Inputs of one kind at one choice of sizes, drawn from a seed; `number` stands among those that it fits."""

    kind: str
    sizes: Mapping[Symbol, int]
    seed: int
    tensors: tuple[torch.Tensor, ...]
    number: int | float | None = None

    def words(self) -> str:
        """How the example was drawn."""
        sizes = ", ".join(f"{s} = {n}" for s, n in self.sizes.items())
        among = "" if self.number is None else f" with {self.number}"
        return f"{self.kind} values{among}, seed {self.seed}" + (f", {sizes}" if sizes else "")


@dataclass(frozen=True)
class Found:
    """Where an output differs on an example."""

    kind: str
    sentence: str
    output: OutputPair | None = None
    index: tuple[int, ...] = ()
    before: str = ""
    after: str = ""
    node: int | None = None


@dataclass
class Tests:
    """The tests of two joined graphs; `errors` keeps the largest differences seen, `examples` how many inputs ran."""

    joined: Joined
    order: list[int] = field(default_factory=list)
    examples: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    """Why BEFORE did not run, the last time that it did not."""
    coarsest: float = 0.0
    """The unit of the coarsest dtype in which something is computed although float64 was asked for: an operator kept as it is."""

    computed: int = 1
    """How many numbers both sides compute, on the largest example so far."""

    def __post_init__(self) -> None:
        self.order = self.joined.graph.topological_order()

    def example(self, kind: str, sizes: Mapping[Symbol, int], seed: int, number: int | float | None = None) -> Example | None:
        """Inputs of this kind, with a number among them, where there are any."""
        tensors = draw(self.joined.graph, kind, sizes, seed, number)
        return None if tensors is None else Example(kind, sizes, seed, tuple(tensors), number)

    def outputs(self, example: Example, float64: bool = True, replaced: Mapping[int, object] | None = None) -> dict[Value, torch.Tensor]:
        """The outputs of both sides.

        Raises: RunError.
        """
        wanted = {value for pair in self.joined.outputs for value in (pair.before, pair.after)}
        kept: dict[Value, torch.Tensor] = {}
        numbers = 0

        def see(value: Value, tensor: torch.Tensor) -> None:
            nonlocal numbers
            numbers += tensor.numel()
            if float64 and tensor.is_floating_point() and tensor.dtype != torch.float64:
                self.coarsest = max(self.coarsest, torch.finfo(tensor.dtype).eps)
            if value in wanted:
                kept[value] = tensor

        run(self.joined.graph, Trace(example.tensors, example.sizes, float64, replaced or {}), see, self.order)
        self.computed = max(self.computed, numbers)
        return kept

    def rounding(self) -> float:
        """u·λ·√n: by how much rounding moves an output, relative to its magnitude and reaction."""
        unit = max(torch.finfo(torch.float64).eps, self.coarsest) / 2
        return unit * LIKELY * math.sqrt(self.computed)

    def difference(self, example: Example) -> Found | None:
        """Where the outputs differ on the example; nothing where BEFORE does not take it."""
        try:
            outputs = self.outputs(example)
        except RunError as error:
            if error.node in self.joined.before:
                self.refused = str(error)
                return None
            self.examples += 1
            return Found("error", f"AFTER raises where BEFORE does not: {error}", node=error.node)
        self.examples += 1
        allowed: dict[str, float] = {}
        for pair in self.joined.outputs:
            a, b = outputs[pair.before], outputs[pair.after]
            found = _shape_or_class(pair, a, b)
            if found is not None or example.kind in SPECIAL:
                if found is not None:
                    return found
                continue
            gap, scale = _distance(a, b)
            self._note("float64", gap, scale)
            if gap <= (self.rounding() * scale if a.is_floating_point() or a.is_complex() else 0.0):
                continue
            if not allowed:
                by_constants, by_inputs = self._reactions(example, outputs), self._conditioning(example, outputs)
                allowed = {name: LIKELY * by_constants[name] + self.rounding() * by_inputs[name] for name in by_constants}
            if gap > allowed[pair.name] + self.rounding() * scale:
                return _at(pair, "value", "the outputs differ", a, b)
        return None

    def coarser(self, example: Example) -> Found | None:
        """An output that AFTER computes with far more rounding than BEFORE, in the graph's own dtypes.

        Each of AFTER's k operators may err by a unit in the last place of the largest element, λ·√k in all; and λ·BEFORE's error.
        """
        try:
            exact, native = self.outputs(example), self.outputs(example, float64=False)
        except RunError:
            return None  # a dtype that a kernel of this machine lacks says nothing
        for pair in self.joined.outputs:
            reference, a, b = exact[pair.before], native[pair.before], native[pair.after]
            if a.dtype != b.dtype:
                return Found("dtype", f"output {pair.name} is {a.dtype} before and {b.dtype} after", pair)
            if not a.is_floating_point() or not bool(a.isfinite().all()):
                continue
            own, scale = _distance(reference, a.double())
            error, _ = _distance(reference, b.double())
            self._note("native", _distance(a.double(), b.double())[0], scale)
            if error > LIKELY * (own + math.sqrt(len(self.joined.after)) * torch.finfo(a.dtype).eps * scale):
                sentence = f"in {str(a.dtype).removeprefix('torch.')} AFTER is off by {error:.3g} where BEFORE is off by {own:.3g}"
                return _at(pair, "precision", sentence, a, b)
        return None

    def _note(self, arithmetic: str, error: float, scale: float) -> None:
        self.errors[arithmetic] = max(self.errors.get(arithmetic, 0.0), error / scale if scale else error)

    def _reactions(self, example: Example, outputs: Mapping[Value, torch.Tensor]) -> dict[str, float]:
        """By how much rounding the constants that only AFTER has can move each of its outputs."""
        worst = dict.fromkeys((pair.name for pair in self.joined.outputs), 0.0)
        new = own_constants(self.joined)
        for direction in range(_DIRECTIONS if new else 0):
            moved = self._moved(example, outputs, new, example.seed + direction)
            for pair in self.joined.outputs:
                a, b = outputs[pair.after], moved[pair.after]
                if a.is_floating_point():
                    worst[pair.name] = max(worst[pair.name], _distance(a, b)[0])
                elif not torch.equal(a, b):
                    worst[pair.name] = float("inf")
        return worst

    def _moved(
        self, example: Example, outputs: Mapping[Value, torch.Tensor], constants: list[int], seed: int
    ) -> Mapping[Value, torch.Tensor]:
        """The outputs with these constants moved; without whole numbers, where an exponent of 2 that is moved gives NaN, say."""
        moved = self.outputs(example, replaced=_moved(self.joined, constants, seed))
        if all(bool((moved[value].isfinite() | ~one.isfinite()).all()) for value, one in outputs.items()):
            return moved
        broken = [node for node in constants if not _is_whole(self.joined.graph, node)]
        return self.outputs(example, replaced=_moved(self.joined, broken, seed))

    def _conditioning(self, example: Example, outputs: Mapping[Value, torch.Tensor]) -> dict[str, float]:
        """How much each output changes, on either side, per relative change of inputs and constants in random directions."""
        worst = dict.fromkeys((pair.name for pair in self.joined.outputs), 0.0)
        step = math.sqrt(torch.finfo(torch.float64).eps)
        for direction in range(_DIRECTIONS):
            generator = torch.Generator().manual_seed(example.seed + direction)
            tensors = tuple(_stirred(tensor, step, generator) for tensor in example.tensors)
            constants = {node: self._stirred_constant(node, step, generator) for node in self.order if self._is_constant(node)}
            try:
                moved = self.outputs(replace(example, tensors=tensors), replaced=constants)
            except RunError:
                continue  # these inputs have no output to react with
            for pair in self.joined.outputs:
                for value in (pair.before, pair.after):
                    a, b = outputs[value], moved[value]
                    if a.is_floating_point() and a.shape == b.shape:
                        worst[pair.name] = max(worst[pair.name], _distance(a, b)[0] / step)
        return worst

    def _is_constant(self, node: int) -> bool:
        operator = self.joined.graph.operator(node)
        return isinstance(operator, Constant) or (isinstance(operator, Scalar) and isinstance(operator.value, float))

    def _stirred_constant(self, node: int, step: float, generator: torch.Generator) -> object:
        operator = self.joined.graph.operator(node)
        if isinstance(operator, Constant):
            return _stirred(self.joined.graph.constants[operator.name].detach(), step, generator)
        return float(_stirred(torch.tensor(operator.attributes["value"], dtype=torch.float64), step, generator))


def _stirred(tensor: torch.Tensor, step: float, generator: torch.Generator) -> torch.Tensor:
    """A floating tensor in float64 with each element changed by the relative step, up or down."""
    if not tensor.is_floating_point():
        return tensor
    signs = torch.randint(0, 2, tensor.shape, generator=generator).double() * 2 - 1
    return tensor.double() * (1 + step * signs)


def own_constants(joined: Joined) -> list[int]:
    """AFTER's floating constants and numbers that BEFORE does not have."""
    graph = joined.graph
    shared = {_content(joined, node) for node in joined.before}
    return [
        node
        for node in sorted(joined.after - joined.before)
        if (c := _content(joined, node)) is not None and c not in shared and _floating(graph, node)
    ]


def _content(joined: Joined, node: int) -> object:
    operator = joined.graph.operator(node)
    if isinstance(operator, Constant):
        return tensor_digest(joined.graph.constants[operator.name])
    return operator.value if isinstance(operator, Scalar) else None


def _floating(graph: Graph, node: int) -> bool:
    return all("float" in type.dtype for type in graph.types(node))


def _is_whole(graph: Graph, node: int) -> bool:
    operator = graph.operator(node)
    value = graph.constants[operator.name].detach() if isinstance(operator, Constant) else torch.tensor(float(operator.attributes["value"]))
    return bool((value == value.trunc()).all())


def _moved(joined: Joined, nodes: list[int], seed: int) -> dict[int, object]:
    generator = torch.Generator().manual_seed(seed)
    result: dict[int, object] = {}
    for node in nodes:
        operator = joined.graph.operator(node)
        if isinstance(operator, Scalar):
            sign = 1.0 if bool(torch.randint(0, 2, (), generator=generator)) else -1.0
            result[node] = operator.value * (1.0 + sign * torch.finfo(torch.float32).eps)
            continue
        tensor = joined.graph.constants[operator.attributes["name"]].detach()
        wide = tensor.double()
        step = torch.finfo(tensor.dtype).eps * (float(wide.abs().max()) if wide.numel() else 0.0)
        result[node] = wide + step * (torch.randint(0, 2, wide.shape, generator=generator) * 2 - 1)
    return result


def _distance(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """The largest difference of finite elements, and the largest magnitude."""
    if not a.numel():
        return 0.0, 0.0
    if not a.is_floating_point() and not a.is_complex():
        return float((a != b).any()), 1.0
    both = a.isfinite() & b.isfinite()
    zero = torch.zeros((), dtype=a.dtype)
    gap, size = torch.where(both, a - b, zero).abs(), torch.where(both, a, zero).abs()
    return float(gap.max()), float(size.max())


def _shape_or_class(pair: OutputPair, a: torch.Tensor, b: torch.Tensor) -> Found | None:
    if a.shape != b.shape:
        return Found("shape", f"output {pair.name} has shape {list(a.shape)} before and {list(b.shape)} after", pair)
    if not a.is_floating_point() or not a.numel():
        return None
    off = (a.isfinite() != b.isfinite()) | (a.isinf() & b.isinf() & (a != b))
    if not bool(off.any()):
        return None
    return _at(pair, "NaN/inf", "one side is finite where the other is not, or infinities differ in sign", a, b, off)


def _at(pair: OutputPair, kind: str, sentence: str, a: torch.Tensor, b: torch.Tensor, off: torch.Tensor | None = None) -> Found:
    """The element that differs most (the first where `off`)."""
    if not a.ndim:
        return Found(kind, sentence, pair, (), repr(a.item()), repr(b.item()))
    if off is None:
        gap = (a.double() - b.double()).abs().nan_to_num(0.0) if not a.is_complex() else (a - b).abs()
        position = int(gap.argmax())
    else:
        position = int(off.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(position), a.shape))
    return Found(kind, sentence, pair, index, repr(a[index].item()), repr(b[index].item()))


__all__ = ["Example", "Found", "Tests", "own_constants"]
