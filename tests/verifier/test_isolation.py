"""Rules that misbehave get one sentence within their time limit, and the others of their file get their verdicts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode

from verifier.isolation import GIBIBYTE, IsolationError, TimeLimit, isolated, rule_names, time_limit, verify_file_rules
from verifier.verdict import Status

_RULES = '''
"""Rules that misbehave, between two that do not."""

import os

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Rule


class First(Rule):
    """a + b = b + a."""

    source = "arithmetic"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a + b

    def replacement(a, b):
        return b + a


class NeverEnds(Rule):
    """x + 1 = x + 1, some day."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + 1

    def replacement(x):
        while True:
            try:
                x.dim()
            except BaseException:
                pass


class EatsMemory(Rule):
    """x + 1 = x + 1, with all the memory there is."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + 1

    def replacement(x):
        kept = []
        while True:
            kept.append(torch.ones(30_000_000))


class Dies(Rule):
    """x + 1 = x + 1, unless the process ends."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        if isinstance(x, Tensor):
            os._exit(3)
        return x + 1

    def replacement(x):
        return 1 + x


class OneOutputLess(Rule):
    """(x + 1, x) = x + 1."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + 1, x

    def replacement(x):
        return x + 1


class Last(Rule):
    """x * 2 = x + x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x * 2

    def replacement(x):
        return x + x
'''


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rules") / "misbehaving.py"
    file.write_text(_RULES)
    return file


def test_every_rule_gets_its_verdict(rules: Path) -> None:
    names = rule_names(str(rules), seconds=120)
    assert names == ["First", "NeverEnds", "EatsMemory", "Dies", "OneOutputLess", "Last"]
    options = {"timeout": 25.0, "examples": 20, "memory_bytes": GIBIBYTE}
    started = time.monotonic()
    verdicts = {verdict.name: verdict for verdict in verify_file_rules([f"{rules}::{name}" for name in names], options, jobs=2)}
    assert time.monotonic() - started < 6 * 30
    assert list(verdicts) == names
    assert verdicts["First"].status is Status.PROVED, verdicts["First"]
    assert verdicts["Last"].status is Status.PROVED, verdicts["Last"]
    assert verdicts["OneOutputLess"].status is Status.REFUTED
    for name, words in (
        ("NeverEnds", "did not end within"),
        ("EatsMemory", "uses more memory than it may"),
        ("Dies", "its process ended with status 3"),
    ):
        assert verdicts[name].status is Status.ERROR and words in verdicts[name].reason, verdicts[name]


def test_any_executor_will_do(rules: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        (verdict,) = verify_file_rules([f"{rules}::Last"], {"timeout": 60.0, "examples": 10}, executor=pool)
    assert verdict.status is Status.PROVED


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _fail() -> None:
    raise ValueError("of no use")


def test_isolated_calls_say_what_went_wrong() -> None:
    with pytest.raises(IsolationError, match="did not end within 1 s"):
        isolated(_sleep, 60.0, seconds=1)
    with pytest.raises(IsolationError, match="ValueError: of no use"):
        isolated(_fail, seconds=60)


def test_time_limit_strikes_and_puts_the_timer_back() -> None:
    with pytest.raises(TimeLimit), time_limit(0.2):
        while True:
            pass
    with time_limit(60) as strikes:
        pass
    assert strikes == []


class _SlowToEnter(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

    def __enter__(self):
        super().__enter__()
        while True:
            pass


def test_a_strike_leaves_no_mode_in_force() -> None:
    with pytest.raises(TimeLimit), time_limit(0.2), torch.no_grad(), _SlowToEnter():
        raise AssertionError("never entered")
    assert torch._C._len_torch_function_stack() == 0 and torch.is_grad_enabled()


def test_a_strike_that_the_block_hides_is_told() -> None:
    with time_limit(0.2) as strikes, suppress(TimeLimit):
        while True:
            pass
    assert strikes
