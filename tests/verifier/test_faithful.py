"""Rules whose functions do something else while they are traced than when they run: none may be proved."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from operators.expressions import Variable
from rewrites import Requires, Rule
from verifier.verdict import Status
from verifier.verify import verify

CALLS: list[int] = []
COUNTER = itertools.count()
TOTAL = 0


class State:
    calls = 0


def every_hundredth(x):
    CALLS.append(1)
    return torch.neg(x) if len(CALLS) > 100_000 else torch.relu(x)


class Wrong(Rule):
    """Made to be wrong."""

    source = "made to be wrong"

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x)

    def replacement(x):
        return F.relu6(torch.neg(x))


class CountsInAList(Wrong):
    """A list grows with every call."""

    def pattern(x: Float[Tensor, "..."]):
        return every_hundredth(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class CountsByAnIterator(Wrong):
    """An iterator gives something else each time."""

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x) if next(COUNTER) < 100_000 else torch.neg(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class CountsInAClass(Wrong):
    """A class keeps the number of calls."""

    def pattern(x: Float[Tensor, "..."]):
        State.calls += 1
        return torch.relu(x) if State.calls < 100_000 else torch.neg(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class CountsInAGlobal(Wrong):
    """A global keeps the number of calls."""

    def pattern(x: Float[Tensor, "..."]):
        global TOTAL
        TOTAL += 1
        return torch.relu(x) if TOTAL < 100_000 else torch.neg(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class CountsInADefault(Wrong):
    """A helper's default keeps the number of calls."""

    def pattern(x: Float[Tensor, "..."]):
        return helper(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


def helper(x, seen=[]):  # noqa: B006
    seen.append(1)
    return torch.relu(x) if len(seen) < 100_000 else torch.neg(x)


class ThrowsDice(Wrong):
    """The function to compute is drawn."""

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x) if random.random() < 0.999_99 else torch.neg(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class LooksAtItsArgument(Wrong):
    """A tensor that runs is not a tensor that is traced."""

    def pattern(x: Float[Tensor, "..."]):
        return torch.clamp(x, min=0.0) if isinstance(x, Tensor) else torch.relu(torch.neg(x))

    def replacement(x):
        return torch.relu(x) if isinstance(x, Tensor) else torch.clamp(torch.neg(x), min=0.0)


class LooksAtItsSizes(Wrong):
    """A size that is a number is not a size that is a symbol."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.clamp(x, min=0.0) if isinstance(x.shape[0], int) else torch.relu(torch.neg(x))

    def replacement(x):
        return torch.relu(x) if isinstance(x.shape[0], int) else torch.clamp(torch.neg(x), min=0.0)


class LooksAtItsSizesInACondition(Wrong):
    """A condition that says one thing of symbols and another of numbers."""

    requires = [Requires("a symbol is large", lambda n: isinstance(n, Variable) or n >= 3)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.clamp(x, min=0.0)

    def replacement(x):
        return torch.relu(x)


class LooksAtItsValuesInACondition(Wrong):
    """A condition on values that says more to the proof than to the matcher."""

    requires = [Requires("a tensor is what it is", lambda slope: isinstance(slope, (float, int, Tensor)) or slope >= 0)]

    def pattern(x: Float[Tensor, "..."], slope: float):
        return torch.abs(x * slope)

    def replacement(x, slope):
        return torch.abs(x) * slope


class SwitchesOnDtype(Wrong):
    """One dtype is computed otherwise."""

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x)

    def replacement(x):
        return torch.clamp(x, min=0.0) if x.dtype != torch.bfloat16 else torch.clamp(x, min=-0.0001)


class SwitchesOnRank(Wrong):
    """Tensors of many axes are computed otherwise."""

    def pattern(x: Float[Tensor, "*s n"]):
        return torch.softmax(x, -1) * 2.0

    def replacement(x):
        return torch.softmax(x, -1 if x.ndim < 5 else -2) * 2.0


class SwitchesOnHighRank(Wrong):
    """Tensors of very many axes are computed otherwise."""

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x)

    def replacement(x):
        return torch.clamp(x, min=0.0) if len(x.shape) < 9 else torch.neg(x)


@pytest.mark.parametrize("rule", Wrong.__subclasses__(), ids=lambda rule: rule.__name__)
def test_a_rule_that_is_not_what_its_trace_is_is_not_proved(rule: type[Rule]) -> None:
    verdict = verify(rule, examples=40, timeout=60)
    assert verdict.status not in (Status.PROVED, Status.PROVED_BOUNDED), verdict.scope


class ReadsTables(Rule):
    """What a function only reads is no state."""

    source = "definition of relu"

    def pattern(x: Float[Tensor, "..."]):
        return FUNCTIONS["relu"](x)

    def replacement(x):
        return FUNCTIONS["clamp"](x, min=LIMITS[0])


FUNCTIONS = {"relu": torch.relu, "clamp": torch.clamp}
LIMITS = [0.0]


def test_a_rule_that_reads_tables_is_proved() -> None:
    verdict = verify(ReadsTables, examples=40, timeout=60)
    assert verdict.status is Status.PROVED, verdict.reason
    assert "... of every number of dims, however they broadcast" in verdict.scope
