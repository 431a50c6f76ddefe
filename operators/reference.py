"""The `onnx` package's reference implementations, put right where they do not do what ONNX says."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy


@cache
def corrected() -> tuple[Any, ...]:
    """The operators that stand in the place of the reference's own."""
    from onnx.reference.ops import op_gru, op_lstm, op_rnn

    # The package has two classes for RNN; an evaluator takes the one of the newest operator set.
    return (_loop(), _slice(), _unique(), _recurrent(op_gru.GRU), _recurrent(op_lstm.LSTM), _recurrent(op_rnn.RNN_14))


def _loop() -> Any:
    """Loop as ONNX defines it: the reference runs no round without a condition, and joins what rounds give along an axis they have."""
    from onnx.reference.ops import op_loop

    reference: Any = op_loop.Loop

    class Loop(reference):  # type: ignore[misc]
        op_domain = ""

        def _run(self, most: Any, goes_on: Any, *values: Any, context: Any = None, **others: Any) -> tuple[Any, ...]:
            body, going, carried, rounds = self.body, goes_on is None or bool(goes_on), list(values), 0
            kept: list[list[Any]] = [[] for _ in range(len(body.output_names) - 1 - len(carried))]
            attributes, bindings = others.get("attributes"), others.get("bindings")
            while going and (most is None or rounds < most):
                starts = (numpy.array(rounds, numpy.int64), numpy.array(going), *carried)
                given = {**(context or {}), **dict(zip(body.input_names, starts, strict=False))}
                found = self._run_body(given, attributes=attributes, bindings=bindings)
                going, carried, rounds = bool(found[0]), list(found[1 : 1 + len(carried)]), rounds + 1
                for place, one in zip(kept, found[1 + len(carried) :], strict=True):
                    place.append(one)
            if kept and not rounds:
                raise ValueError("no rounds, and outputs of every round, whose shapes are not known")
            return (*carried, *map(numpy.stack, kept))

    return Loop


def _slice() -> Any:
    """Slice backwards from before the first element, which starts at the first element; the reference takes nothing, as Python does."""
    from onnx.reference.ops import op_slice

    reference: Any = op_slice.Slice_10

    def _run(self: Any, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> tuple[Any, ...]:
        if steps is not None:
            places = range(len(starts)) if axes is None else axes.tolist()
            lowest = numpy.array([-x.shape[place] if step < 0 else start for place, step, start in zip(places, steps, starts, strict=True)])
            starts = numpy.maximum(starts, lowest).astype(starts.dtype)
        found: tuple[Any, ...] = reference._run(self, x, starts, ends, axes, steps)
        return found

    return type("Slice", (reference,), {"op_domain": "", "_run": _run})


def _unique() -> Any:
    """Unique, which the reference sorts whether it is asked to or not."""
    from onnx.reference.ops import op_unique

    reference: Any = op_unique.Unique

    def _run(self: Any, x: Any, **settings: Any) -> tuple[Any, ...]:
        if not settings.get("sorted", 1):
            raise NotImplementedError("elements in the order in which they come are not covered")
        found: tuple[Any, ...] = reference._run(self, x, **settings)
        return found

    return type("Unique", (reference,), {"op_domain": "", "_run": _run})


_USUAL = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
"""The activations of one direction, all that the reference has."""


def _recurrent(reference: Any) -> Any:
    """GRU, LSTM or RNN over sequences of different lengths; what else the reference ignores is refused."""
    name = reference.__name__.split("_")[0]

    def _run(self: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *states: Any, **settings: Any) -> tuple[Any, ...]:
        for ignored in ("clip", "input_forget"):
            if getattr(self, ignored, None):
                raise NotImplementedError(f"{ignored} is not covered")
        activations = list(getattr(self, "activations", None) or ())
        if name in _USUAL and activations not in ([], _USUAL[name] * w.shape[0]):
            raise NotImplementedError(f"activations {activations} are not covered")
        layout = settings.get("layout") or 0
        steps, batch = x.shape[layout], x.shape[1 - layout]
        if lengths is None or (lengths == steps).all():
            found: tuple[Any, ...] = reference._run(self, x, w, r, b, None, *states, **settings)
            return found
        if layout or (lengths < 1).any():
            raise NotImplementedError("sequences of no steps, or batches before steps, are not covered")
        parts = []
        for place, length in enumerate(lengths):
            own = [state[:, place : place + 1] if state is not None and state.ndim == 3 else state for state in states]
            whole, *last = reference._run(self, x[:length, place : place + 1], w, r, b, None, *own, **settings)
            parts.append((numpy.pad(whole, ((0, steps - length), *[(0, 0)] * 3)), *last))
        # Y is [steps, directions, batch, hidden], the last states are [directions, batch, hidden].
        assert len(parts) == batch
        return tuple(numpy.concatenate(one, axis=2 if position == 0 else 1) for position, one in enumerate(zip(*parts, strict=True)))

    return type(name, (reference,), {"op_domain": "", "_run": _run})
