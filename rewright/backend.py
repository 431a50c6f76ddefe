"""`torch.compile(model, backend="rewright")`: what TorchDynamo captures is optimised before it runs.

Parameters and buffers are taken as constants, so that rules may fold them; when one of them is changed in place afterwards, the graph
is optimised anew. Where gradients are asked for, or the graph cannot be captured, it runs as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Compiled = Callable[..., Any]


def rewright(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Compiled:
    """The backend as TorchDynamo calls it; `options` are those of `rewright.optimize`."""
    if torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs):
        return graph_module.forward
    return _Optimised(graph_module, list(example_inputs), dict(options or {}))


@dataclass(frozen=True)
class _Place:
    """Where the value of one placeholder comes from: an argument, a weight held as a constant, or a size of an argument.

    `what` is the argument's number, the constant's name, or the argument's number and the axis; `dynamic` are an argument's axes that
    TorchDynamo holds to vary.
    """

    kind: str
    what: Any
    dynamic: tuple[int, ...] = ()


def _places_of(graph_module: torch.fx.GraphModule, values: Sequence[Any]) -> list[_Place]:
    """A place for each placeholder. TorchDynamo tells where values come from only while it compiles."""
    nodes = graph_module.graph.find_nodes(op="placeholder")
    sources = [node.meta["grapharg"].source for node in nodes]
    held = ["_parameters" in _name(source) or "_buffers" in _name(source) for source in sources]
    tensors = [isinstance(value, torch.Tensor) for value in values]
    arguments = [_name(source) for source, state, tensor in zip(sources, held, tensors, strict=True) if tensor and not state]
    places = []
    for node, source, value, state in zip(nodes, sources, values, held, strict=True):
        if not isinstance(value, torch.Tensor):
            places.append(_Place("size", (arguments.index(_name(source.base)), int(source.idx))))
        elif state:
            places.append(_Place("state", f"state_{len(places)}"))
        else:
            example = node.meta.get("example_value")
            shape = example.shape if isinstance(example, torch.Tensor) else value.shape
            dynamic = tuple(axis for axis, size in enumerate(shape) if not isinstance(size, int))
            places.append(_Place("argument", arguments.index(_name(source)), dynamic))
    return places


def _name(source: Any) -> str:
    return source.name if isinstance(source.name, str) else str(source.name())


class _Frozen(torch.nn.Module):
    """The captured graph with its weights held as buffers and its symbolic sizes read from its tensors."""

    def __init__(self, graph_module: torch.fx.GraphModule, places: Sequence[_Place], values: Sequence[Any]) -> None:
        super().__init__()
        self.inner = graph_module
        self.places = places
        for place, value in zip(places, values, strict=True):
            if place.kind == "state":
                self.register_buffer(place.what, value.detach())

    def forward(self, *arguments: torch.Tensor) -> Any:
        given: list[Any] = []
        for place in self.places:
            if place.kind == "argument":
                given.append(arguments[place.what])
            elif place.kind == "state":
                given.append(getattr(self, place.what))
            else:
                number, axis = place.what
                given.append(arguments[number].shape[axis])
        return self.inner(*given)


class _Optimised:
    """The optimised graph, made anew when a weight has changed."""

    def __init__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> None:
        self.graph_module = graph_module
        self.options = options
        self.places = _places_of(graph_module, example_inputs)
        self.module: torch.nn.Module | None = None
        self.state: list[tuple[int, int]] = []
        self._make(example_inputs)

    def __call__(self, *values: Any) -> Any:
        if self._state_of(values) != self.state:
            self._make(values)
        return self.graph_module(*values) if self.module is None else self.module(*self._arguments(values))

    def _arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value for value, place in zip(values, self.places, strict=True) if place.kind == "argument")

    def _state_of(self, values: Sequence[Any]) -> list[tuple[int, int]]:
        """Which tensors the weights are, and how often each was written."""
        return [(id(value), value._version) for value, place in zip(values, self.places, strict=True) if place.kind == "state"]

    def _make(self, values: Sequence[Any]) -> None:
        from graphs.capture import CaptureError
        from rewright.optimization import optimize

        self.module, self.state = None, self._state_of(values)
        axes = [dict.fromkeys(place.dynamic, torch.export.Dim.AUTO) or None for place in self.places if place.kind == "argument"]
        dynamic = {"arguments": tuple(axes)} if any(axes) else None
        try:
            # Without the tracing that is going on around the call: the export's guards are not guards of the caller's frame.
            with torch._guards.tracing(None):
                frozen = _Frozen(self.graph_module, self.places, values).eval()
                self.module = optimize(frozen, self._arguments(values), dynamic_shapes=dynamic, **self.options).module
        except CaptureError as error:
            warnings.warn(f"rewright: the graph runs as it is: {error}", stacklevel=2)
