"""Running both sides of a rule in PyTorch eager, and recording what they compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils import _pytree as pytree

from verifier.instances import Instance


@dataclass
class Outcome:
    """What one side did: its outputs, its arguments as it left them, the random state it left, or what it raised."""

    outputs: list[Any] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    random_state: torch.Tensor | None = None
    error: Exception | None = None

    @property
    def aliased(self) -> frozenset[tuple[int, int]]:
        """Pairs (output, argument) that share memory."""
        homes: dict[int, int] = {}
        for position, argument in enumerate(self.arguments):
            if isinstance(argument, torch.Tensor) and argument.numel():
                homes.setdefault(argument.untyped_storage().data_ptr(), position)
        return frozenset(
            (output, homes[value.untyped_storage().data_ptr()])
            for output, value in enumerate(self.outputs)
            if isinstance(value, torch.Tensor) and value.numel() and value.untyped_storage().data_ptr() in homes
        )


def run(function: Callable[..., Any], arguments: list[Any], seed: int = 0) -> Outcome:
    """The function on the arguments under the random seed.

    Raises: MemoryError when there is not enough.
    """
    torch.default_generator.manual_seed(seed)
    outcome = Outcome(arguments=arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*arguments)
        outcome.outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    except MemoryError:
        raise
    except Exception as error:  # a rule's function may raise anything; the outcome carries it to the comparison
        if "can't allocate memory" in str(error):
            raise MemoryError from error
        outcome.error = error
    outcome.random_state = torch.get_rng_state()
    return outcome


def run_sides(instance: Instance) -> tuple[Outcome, Outcome]:
    """Pattern and replacement, each on arguments of its own."""
    left = run(instance.rule.pattern, instance.arguments(), instance.seed)
    if left.error is not None:
        return left, left
    return left, run(instance.rule.replacement, instance.arguments(), instance.seed)


@dataclass
class Call:
    """One torch call while a side ran."""

    function: Any
    arguments: Any
    keywords: Any
    result: Any

    @property
    def name(self) -> str:
        """The function's name as code can use it (`torch.nn.functional.relu`, `torch.Tensor.mul`)."""
        return str(resolve_name(self.function) or getattr(self.function, "__name__", self.function))

    def tensors(self) -> Iterator[torch.Tensor]:
        """Every tensor among arguments and results."""
        for leaf in pytree.tree_leaves((self.arguments, self.keywords, self.result)):
            if isinstance(leaf, torch.Tensor):
                yield leaf


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(result)):
            self.calls.append(Call(function, args, kwargs or {}, result))
        return result


def record(function: Callable[..., Any], arguments: list[Any], seed: int = 0) -> tuple[Outcome, list[Call]]:
    """The function's outcome and every torch call it made."""
    recorder = _Recorder()

    def call(*given: Any) -> Any:
        with recorder:
            return function(*given)

    return run(call, arguments, seed), recorder.calls


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, deterministic, by its own kernels; the global random state is put back afterwards.

    oneDNN's convolution reads outside a bfloat16 weight whose strides skip elements, and kills the process (torch 2.13).
    """
    threads, state, one_dnn = torch.get_num_threads(), torch.get_rng_state(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    # `mkldnn.flags` would set all of oneDNN's switches, and warn of one that this build lacks.
    torch.backends.mkldnn.set_flags(_enabled=False, _fp32_precision=None)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=one_dnn, _fp32_precision=None)  # type: ignore[no-untyped-call]
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


__all__ = ["Call", "Outcome", "one_thread", "record", "run", "run_sides"]
