"""From a failing instance to the counterexample that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from verifier.comparing import Difference
from verifier.counterexample import Counterexample, Step
from verifier.instances import Instance
from verifier.running import record
from verifier.scripts import call_text, script, side_source

_MOST_SHOWN = 64


def counterexample(instance: Instance, difference: Difference, examples: int, seed: int, tail: str | None = None) -> Counterexample:
    """The counterexample of a failing instance, with both sides' intermediate values and its script."""
    rule = instance.rule
    statement = rule.statement()
    return Counterexample(
        rule=rule.__name__,
        statement=statement,
        pattern=side_source(rule.pattern, "pattern"),
        replacement=side_source(rule.replacement, "replacement"),
        kind=difference.kind.value,
        sentence=difference.sentence,
        sizes=dict(sorted(instance.sizes.items())),
        attributes=instance.attributes,
        dtype=instance.dtype,
        mode=mode(instance),
        inputs={name: tensor.tolist() for name, tensor in instance.tensors.items()},
        types={name: _type_text(tensor) for name, tensor in instance.tensors.items()},
        left=steps(rule.pattern, instance),
        right=steps(rule.replacement, instance),
        output=difference.output,
        index=difference.index,
        left_value=difference.left,
        right_value=difference.right,
        seed=seed,
        examples=examples,
        script=script(instance, difference, statement, tail),
    )


def mode(instance: Instance) -> str:
    """Values, layouts and sharing in words."""
    words = [f"{instance.values} values"]
    words += [f"{name} {layout}" for name, layout in instance.layouts.items() if layout != "contiguous"]
    words += [f"{a} is {b}" for a, b in instance.shared.items()]
    return ", ".join(words)


def steps(function: Callable[..., Any], instance: Instance) -> tuple[Step, ...]:
    """Every intermediate value of a side."""
    arguments = instance.arguments()
    names = instance.rule.signature().names
    known = {id(value): name for name, value in zip(names, arguments, strict=True) if isinstance(value, torch.Tensor)}
    outcome, calls = record(function, arguments, instance.seed)
    found = []
    for position, call in enumerate(calls):
        text = call_text(call, known)
        known[id(call.result)] = f"t{position}"
        if isinstance(call.result, (tuple, list)):
            known.update({id(part): f"t{position}[{i}]" for i, part in enumerate(call.result)})
        found.append(Step(f"t{position} = {text.removeprefix('torch.nn.functional.')}", _value_text(call.result)))
    if outcome.error is not None:
        found.append(Step(f"raises {type(outcome.error).__name__}", " ".join(str(outcome.error).split())))
    return tuple(found)


def _value_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor_text(value)
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(_value_text, value)) + ")"
    return repr(value)


def _tensor_text(tensor: torch.Tensor) -> str:
    if tensor.numel() > _MOST_SHOWN:
        return f"{_type_text(tensor)} of {tensor.numel()} elements"
    return f"{_type_text(tensor)} {tensor.detach().tolist()}"


def _type_text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


__all__ = ["counterexample", "mode", "steps"]
