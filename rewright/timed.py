"""What the clock decides of a result: which memory layout it has, whether it is handed out, and what its profile is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from costs.devices import Device
from costs.timing import Clock
from graphs.capture import call_arguments
from graphs.emit import to_module
from graphs.interface import interface_of
from rewright.layouts import LAW, channels_last
from rewright.packing import PackedConvolution, pack
from rewright.speed import SECONDS, compared, profiled, why_not_here
from search.check import UNITS, NumericCheckError, compare_native, draw_inputs, relative_error
from search.objective import Objective
from search.result import Step

if TYPE_CHECKING:
    from rewright.optimization import Result

Module = Callable[..., Any]

WORTH = 1.02
"""How many times as fast another layout must make a model to be taken."""


class Timed:
    """A result beside the module that came in, on the example inputs; `why_not` says why the clock here says nothing of the device."""

    def __init__(
        self,
        result: Result,
        module: torch.nn.Module | None,
        example_inputs: Any,
        device: Device,
        inputs: Sequence[torch.Tensor] | None,
        sizes: Mapping[str, int],
    ) -> None:
        self.result = result
        self.inputs = inputs
        self.sizes = sizes
        original = result.original
        self.came_as_module = module is not None
        self.before = module if module is not None else to_module(original)
        tensors = [*(inputs or ()), *original.constants.values()]
        self.why_not = why_not_here(device, Objective.of(result.objective).measured, result.runtime, tensors)
        if interface_of(original).training:
            self.why_not = "the model is in training mode"
        if not self.why_not:
            given = example_inputs if example_inputs is not None else tuple(draw_inputs(original, 0, sizes))
            self.arguments, self.named = call_arguments(given)

    @property
    def here(self) -> bool:
        """This machine is the one optimised for."""
        return not self.why_not

    @property
    def runtime(self) -> str:
        return self.result.runtime or "eager"

    def settle(self, law: Callable[[], str | None] | None, allow_slower: bool, profile: bool) -> None:
        """Choose the layouts (if their law may be used and has a certificate), take the result back if it is slower, and profile it."""
        result = self.result
        if not self.here:
            result.speed_note = f"no speed was measured: {self.why_not}"
            return
        if law is not None and self.runtime == "eager":
            self._try_layouts(law)
        if profile:
            result.profile = profiled(self.before, result.module, self.arguments, self.named)
        if not result.steps:
            result.speed_note = "no speed was measured: nothing changed"
            return
        result.speed = speed = compared(self.before, result.module, self.arguments, self.named, self.runtime)
        what = "what came in"
        if not speed.slower and self.came_as_module:
            # A capture alone may be faster than the module, and hide steps that are slower.
            alone = compared(to_module(result.original), result.module, self.arguments, self.named, self.runtime, SECONDS / 2)
            if alone.slower:
                speed, what = alone, "its graph without the steps"
        if not speed.slower:
            result.speed_note = f"handed out: {speed}{self._in_files()}"
        elif allow_slower:
            result.speed_note = f"handed out although it is slower, as asked: {speed}{self._in_files()}"
        else:
            result.speed_note = f"not handed out, {what} is faster: {speed}"
            result.module, result.graph, result.after = self.before, result.original, result.before
            result.steps, result.certificates, result.max_error = [], {}, dict.fromkeys(result.max_error, 0.0)

    def _in_files(self) -> str:
        """What of the speed a file does not have."""
        packs = any(isinstance(part, PackedConvolution) for part in self.result.module.modules())
        return "; packed weights are this module's alone, files hold them as they were" if packs else ""

    def _try_layouts(self, law: Callable[[], str | None]) -> None:
        """Take the channels-last form of the result, with weights packed or not, if the clock says that it is faster beyond the noise."""
        result = self.result
        graph, number = channels_last(result.graph)
        if not number:
            return
        found = layout_of(result.module, to_module(graph), to_module(graph), self.arguments, self.named)
        if found is None:
            return
        module, what = found
        certificate = law()
        if certificate is None:
            return
        try:
            error = compare_native(result.original, graph, self.inputs, sizes=self.sizes)
        except NumericCheckError:
            # Another kernel that rounds more than the check allows is no improvement; the result stays as it was checked.
            return
        error = max([error, *(relative_error(a, b) for a, b in _outputs(self.before, module, self.arguments, self.named))])
        step = Step(LAW.__name__, f"{number} tensors laid out {what}", result.after, result.after, False, certificate)
        result.module, result.graph, result.steps = module, graph, [*result.steps, step]
        result.max_error = {**result.max_error, "native": max(error, result.max_error.get("native", 0.0))}


def layout_of(
    given: Module,
    laid_out: torch.nn.Module,
    to_pack: fx.GraphModule,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    clock: Clock = time.perf_counter,
) -> tuple[torch.nn.Module, str] | None:
    """The fastest of a module, its channels-last form, and this with packed weights; None where it is the module itself.

    to_pack: the channels-last form once more
    """
    speed = compared(given, laid_out, arguments, named, "eager", SECONDS / 2, clock)
    best: tuple[torch.nn.Module, str, float] | None = None
    if speed.low > 1.0 and speed.ratio >= WORTH:
        best = laid_out, "channels-last", speed.ratio
    number = pack(to_pack)
    if number and _agree(laid_out, to_pack, arguments, named):
        speed = compared(given, to_pack, arguments, named, "eager", SECONDS / 2, clock)
        if speed.low > 1.0 and speed.ratio >= WORTH * (best[2] if best else 1.0):
            best = to_pack, f"channels-last, weights of {number} convolutions packed", speed.ratio
    return None if best is None else best[:2]


def _agree(left: Module, right: Module, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """The modules give the same but for rounding."""
    pairs = _outputs(left, right, arguments, named)
    return all(relative_error(a, b) <= (UNITS * torch.finfo(a.dtype).eps if a.is_floating_point() else 0.0) for a, b in pairs)


def _outputs(left: Module, right: Module, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    with torch.no_grad():
        pairs = zip(*(pytree.tree_leaves(side(*arguments, **named)) for side in (left, right)), strict=True)
        return [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]


__all__ = ["WORTH", "Timed", "layout_of"]
