"""Every status of a verdict, determinism, and the JSON form."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from verifier.verdict import Status, Verdict
from verifier.verify import verify


class Commute(Rule):
    """a + b = b + a."""

    source = "arithmetic"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a + b

    def replacement(a, b):
        return b + a


class SubtractTheWrongWay(Rule):
    """a - b = b - a."""

    source = "a mistake"

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "m n"]):
        return a - b

    def replacement(a, b):
        return b - a


class MaximumOfImage(Rule):
    """A max pool to one position is the maximum over all positions."""

    source = "definition of the max pool"
    bidirectional = True

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.adaptive_max_pool2d(x, 1)

    def replacement(x):
        return x.amax((-2, -1), keepdim=True)


class MaximumOfSomeImage(MaximumOfImage):
    """A max pool to one position is the maximum over all positions, and the other way round where there are any."""

    requires_reversed = [Requires("there are channels and positions", lambda c, h, w: c >= 1 and h >= 1 and w >= 1)]


class NeverApplies(Rule):
    """a + b = b + a, for sizes that do not exist."""

    source = "arithmetic"
    requires = [Requires("n exceeds 3", lambda n: n > 3), Requires("n is below 3", lambda n: n < 3)]

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a + b

    def replacement(a, b):
        return b + a


class NeverAppliesToNumbers(Rule):
    """|x| = -x, for numbers that do not exist."""

    source = "arithmetic"
    requires = [Requires("x exceeds 3", lambda x: x > 3), Requires("x is below 3", lambda x: x < 3)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.abs(x)

    def replacement(x):
        return -x


class ChangesNothing(Rule):
    """a + b = a + b."""

    source = "arithmetic"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a + b

    def replacement(a, b):
        return torch.add(a, b)


class CountsFromTheEnd(Rule):
    """The last 3 entries are those from n - 3 on, which short rows do not have."""

    source = "a slice that clamps what it is given, and one that does not"

    def pattern(x: Float[Tensor, "n"]):
        return x[-3:]

    def replacement(x):
        return x[x.shape[0] - 3 :]


class MovesAnAxis(Rule):
    """To move the first axis to the end is a permutation."""

    source = "two calls for one graph"

    def pattern(x: Float[Tensor, "a b c"]):
        return torch.movedim(x, 0, 2)

    def replacement(x):
        return x.permute(1, 2, 0)


class AlwaysRaises(Rule):
    """The inverse of a row is the row."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return torch.linalg.inv(x)

    def replacement(x):
        return x


class NeverEnds(Rule):
    """x + 1 = x + 1, some day."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + 1

    def replacement(x):
        while True:
            x = x + 0


class FewerOutputs(Rule):
    """(x, -x) = x."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + 1, -x

    def replacement(x):
        return x + 1


class RarelyApplies(Rule):
    """x + x = 2x, for sizes that are hardly ever drawn."""

    source = "arithmetic"
    requires = [Requires("the sizes are two large numbers that differ by one", lambda m, n: (m * n == 1892) & (n == m + 1))]

    def pattern(x: Float[Tensor, "m n"]):
        return x + x

    def replacement(x):
        return 2 * x


class DeclaresWithoutProof(Rule):
    """The logarithm of 1 + x by one function or by two."""

    source = "numerical analysis"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    requires = [Requires("x is positive", lambda x: x > 0)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.special.log1p(x)

    def replacement(x):
        return torch.log(1 + x)


@pytest.mark.parametrize(
    ("rule", "status", "reason"),
    [
        (Commute, Status.PROVED, ""),
        (SubtractTheWrongWay, Status.REFUTED, "value: the outputs differ"),
        (NeverApplies, Status.VACUOUS, "no sizes meet the conditions"),
        (NeverAppliesToNumbers, Status.VACUOUS, "no numbers meet the conditions"),
        (ChangesNothing, Status.TRIVIAL, "both sides are the same"),
        (CountsFromTheEnd, Status.REFUTED, "shape"),
        (MovesAnAxis, Status.PROVED, ""),
        (AlwaysRaises, Status.ERROR, "the pattern raises on every example"),
        (FewerOutputs, Status.REFUTED, "number of outputs"),
        (RarelyApplies, Status.PROVED, ""),
    ],
)
def test_status(rule: type[Rule], status: Status, reason: str) -> None:
    verdict = verify(rule, examples=40)
    assert verdict.status is status, verdict
    assert verdict.reason.startswith(reason), verdict
    assert (verdict.counterexample is not None) == (status is Status.REFUTED)


def test_a_rule_that_never_ends_is_an_error_within_its_time() -> None:
    started = time.monotonic()
    verdict = verify(NeverEnds, timeout=4)
    assert verdict.status is Status.ERROR and "did not end within 4 s" in verdict.reason
    assert time.monotonic() - started < 8


def test_counterexample_is_the_smallest() -> None:
    found = verify(SubtractTheWrongWay, examples=40).counterexample
    assert found is not None
    assert found.sizes == {"m": 1, "n": 1}
    assert sorted(str(value) for value in found.inputs.values()) == ["[[0.0]]", "[[1.0]]"]


def test_where_only_a_proof_counts_tested_is_undecided() -> None:
    tested = verify(DeclaresWithoutProof, examples=40)
    assert tested.status in (Status.TESTED, Status.PROVED), tested
    if tested.status is Status.TESTED:
        strict = verify(DeclaresWithoutProof, examples=40, require_proof=True)
        assert strict.status is Status.UNDECIDED and "a proof is required" in strict.reason


def test_json_form_has_the_documented_fields() -> None:
    for rule in (Commute, SubtractTheWrongWay):
        data = verify(rule, examples=20).to_json()
        json.dumps(data, allow_nan=False)
        assert {"name", "status", "scope", "equality", "effects", "gradients", "seconds", "counterexample", "reason"} <= set(data)
        assert Verdict.from_json(data).to_json() == data


def _without_times(verdict: Verdict) -> str:
    data = verdict.to_json()
    data["seconds"] = 0
    for part in data["parts"]:
        part["seconds"] = 0
    return json.dumps(data, sort_keys=True)


@pytest.mark.parametrize("rule", [SubtractTheWrongWay, Commute])
def test_the_same_seed_gives_the_same_verdict(rule: type[Rule]) -> None:
    assert _without_times(verify(rule, examples=30, seed=5)) == _without_times(verify(rule, examples=30, seed=5))


def test_another_process_gives_the_same_counterexample(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    code = (
        f"import sys; sys.path[:0] = [{str(root)!r}]\n"
        "from rewrites.load import load_rules\n"
        "from verifier.verify import verify\n"
        f"(rule,) = load_rules({str(root / 'examples' / 'wrong_rules.py')!r} + '::SplitRowsBeforeActivation')\n"
        "print(verify(rule, examples=40, seed=3).counterexample.script)\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout


def test_constants_of_one_name_and_different_contents_are_not_the_same() -> None:
    class OtherConstants(Rule):
        """x + 1 = x + 2."""

        source = "a mistake"

        def pattern(x: Float[Tensor, "2"]):
            return x + torch.tensor([1.0, 1.0])

        def replacement(x):
            return x + torch.tensor([1.0, 2.0])

    verdict = verify(OtherConstants, examples=10)
    assert verdict.status is Status.REFUTED, verdict


class SignOfTheSum(Rule):
    """A vector or its negative, by the sign of its sum: wrong only where the elements cancel."""

    source = "for this test"

    def pattern(a: Float[Tensor, "n"]):
        return a if a.sum() > 0 else -a

    def replacement(a):
        return a * torch.sign(a.sum())


@pytest.mark.parametrize("seed", range(4))
def test_what_hangs_on_elements_together_is_made_small(seed: int) -> None:
    found = verify(SignOfTheSum, seed=seed).counterexample
    assert found is not None
    assert found.sizes == {"n": 2}
    assert sum(found.inputs["a"]) == 0


def test_a_verdict_says_what_became_of_the_other_direction() -> None:
    verdict = verify(MaximumOfImage, examples=30)
    assert verdict.status is Status.PROVED
    assert "; not from right to left: REFUTED: error: the replacement raises RuntimeError: adaptive_max_pool2d()" in verdict.scope
    assert verdict.parts[-1].name == "from right to left"
    mended = verify(MaximumOfSomeImage, examples=30)
    assert mended.status is Status.PROVED
    assert "right to left" not in mended.scope
    assert mended.parts[-1].result == "PROVED"
    assert mended.content != verdict.content
