"""Whole graphs compared: what is the same is proved, and every planted miscompilation is found with an input."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphs.capture import capture
from verifier.equivalence.comparing import compare_graphs
from verifier.equivalence.joining import AlignmentError
from verifier.equivalence.result import Comparison
from verifier.verdict import Status

N, M = torch.export.Dim("n", min=1), torch.export.Dim("m", min=1)


class Of(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Small(nn.Module):
    """A convolution, its batch norm, a ReLU, a 1x1 convolution, the mean, a linear layer."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, eps=eps)
        self.second, self.last = nn.Conv2d(8, 4, 1), nn.Linear(4, 5)
        for tensor in (self.norm.running_mean, self.norm.weight, self.norm.bias):
            assert tensor is not None
            nn.init.normal_(tensor)
        assert self.norm.running_var is not None
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.second(torch.relu(self.norm(self.first(x)))))
        return self.last(y.mean((2, 3)))  # type: ignore[no-any-return]


IMAGES = (torch.randn(2, 3, 8, 6),)
SIZES = ({0: N, 2: torch.export.Dim("h", min=1), 3: torch.export.Dim("w", min=1)},)


def folded(eps: float = 1e-5) -> Small:
    """The small model with its batch norm folded into the convolution, as others do it."""
    model, norm = Small(), copy.deepcopy(Small().norm)
    norm.eps = eps
    model.first = torch.nn.utils.fuse_conv_bn_eval(model.first, norm)
    model.norm = nn.Identity()  # type: ignore[assignment]
    return model


def compared(before: nn.Module, after: nn.Module, inputs: Any = IMAGES, sizes: Any = None, **options: Any) -> Comparison:
    return compare_graphs(capture(before, inputs, sizes), capture(after, inputs, sizes), **{"examples": 12, **options})


def functions(before: Callable[..., Any], after: Callable[..., Any], *inputs: Tensor, sizes: Any = None, **options: Any) -> Comparison:
    named = None if sizes is None else (tuple(sizes),)
    return compared(Of(before).eval(), Of(after).eval(), inputs, named, **options)


@pytest.mark.parametrize("sizes", [None, SIZES], ids=["fixed", "symbolic"])
def test_a_folded_batch_norm_is_proved_in_both_directions(sizes: Any) -> None:
    for before, after in ((Small(), folded()), (folded(), Small())):
        found = compared(before, after, sizes=sizes)
        assert found.status is Status.PROVED, found
        assert "up to the rounding of folded constants" in found.scope
        assert found.scope.startswith("all sizes" if sizes else "the sizes")


ANGLES = torch.arange(12.0).outer(torch.arange(9.0)) * (2 * torch.pi / 12)


@pytest.mark.parametrize(
    "function", [torch.cos, torch.sin, lambda a: torch.exp(-a / 9), lambda a: torch.log(a + 1), lambda a: torch.sigmoid(a * 0.1)]
)
def test_functions_of_constants_are_the_constants_that_hold_them(function: Callable[[Tensor], Tensor]) -> None:
    """As a Fourier transform's matrix is, which optimisers fold; one element that is off by little is not."""
    table, x = function(ANGLES), torch.randn(4, 12)
    found = functions(lambda x: x @ function(ANGLES), lambda x: x @ table, x, sizes=({0: N},))
    assert found.status is Status.PROVED and "up to the rounding of folded constants" in found.scope, found
    wrong = table.clone()
    wrong[5, 4] += 3e-5
    assert functions(lambda x: x @ function(ANGLES), lambda x: x @ wrong, x, sizes=({0: N},)).status is not Status.PROVED


def test_the_same_model_is_the_same_bit_for_bit() -> None:
    found = compared(Small(), Small())
    assert found.status is Status.PROVED and "bit for bit" in found.scope and not found.proved


def test_the_same_seed_gives_the_same_answer() -> None:
    first, second = (compared(Small(), folded(1e-3)).to_json() for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert first["status"] == "REFUTED"


@pytest.mark.parametrize("eps", [1e-3, 1e-4, 1e-6])
def test_a_wrong_epsilon_is_found_and_located(eps: float) -> None:
    found = compared(Small(), Small(eps))
    assert found.status is Status.REFUTED and found.difference is not None
    assert found.difference.kind == "value" and found.difference.before != found.difference.after
    assert found.difference.first[1] is not None and found.difference.first[1].label.startswith("BatchNorm")


@pytest.mark.parametrize("eps", [1e-3, 1e-4, 2e-5])
def test_a_wrong_epsilon_is_found_although_it_was_folded(eps: float) -> None:
    assert compared(Small(), folded(eps)).status is Status.REFUTED


def test_an_epsilon_wrong_by_less_than_rounding_is_not_proved() -> None:
    assert compared(Small(), folded(1.4e-5)).status is not Status.PROVED


def test_cancelled_digits_are_rounding_and_a_wrong_value_of_their_size_is_not() -> None:
    x = (torch.randn(3, 4),)
    cancelling = capture(Of(lambda x: (x + 1e6) - 999999.0), x)
    assert compare_graphs(cancelling, capture(Of(lambda x: x + 1.0), x)).status in (Status.PROVED, Status.TESTED)
    assert compare_graphs(capture(Of(lambda x: x + 1.0), x), capture(Of(lambda x: x + 1.0 + x * 1e-10), x)).status is Status.REFUTED


def test_equal_by_algebra() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    assert functions(lambda x: (x @ a) @ b, lambda x: x @ (a @ b), torch.randn(3, 4)).status is Status.PROVED
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert functions(lambda x, y: (x + y) * 2, lambda x, y: 2 * x + y * 2, x, y, sizes=({0: N, 1: M}, {0: N, 1: M})).status is Status.PROVED
    found = functions(lambda x: x.relu().transpose(1, 2), lambda x: x.transpose(1, 2).relu(), torch.randn(2, 3, 5))
    assert found.status is Status.PROVED


def test_values_that_agree_up_to_layout_are_cut_points() -> None:
    weight, bias = torch.randn(3, 5, 3, 3), torch.randn(5)

    def rows_last(x: Tensor) -> Tensor:
        y = torch.softmax(torch.tanh(x.permute(0, 2, 3, 1) + 1).permute(0, 3, 1, 2), 1)
        return nn.functional.conv_transpose2d(y, weight, bias)

    def rows_first(x: Tensor) -> Tensor:
        return nn.functional.conv_transpose2d(torch.softmax(torch.tanh(x + 1), 1), weight, bias)

    assert functions(rows_last, rows_first, torch.randn(2, 3, 4, 6)).status is Status.PROVED


def test_merged_convolutions_are_proved() -> None:
    one, two = torch.randn(4, 3, 3, 3), torch.randn(2, 3, 3, 3)

    def apart(x: Tensor) -> Tensor:
        return torch.cat([torch.relu(nn.functional.conv2d(x, one)), torch.tanh(nn.functional.conv2d(x, two))], 1)

    def together(x: Tensor) -> Tensor:
        y = nn.functional.conv2d(x, torch.cat([one, two]))
        return torch.cat([torch.relu(y[:, :4]), torch.tanh(y[:, 4:])], 1)

    assert functions(apart, together, torch.randn(2, 3, 6, 6)).status is Status.PROVED


@pytest.mark.parametrize("sizes", [(2, 2), (4, 2), (2, 3)], ids=str)
def test_joined_convolutions_with_joined_constants_are_proved(sizes: tuple[int, int]) -> None:
    """Each part of the constants is read within its own part of the channels alone."""
    kernels, biases = [torch.randn(size, 2, 3, 3) for size in sizes], [torch.randn(size) for size in sizes]

    def apart(x: Tensor) -> Tensor:
        return torch.cat([nn.functional.conv2d(x, k, b, padding=1) for k, b in zip(kernels, biases, strict=True)], 1)

    def together(kernel: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: nn.functional.conv2d(x, kernel, bias, padding=1)

    images = torch.randn(2, 2, 5, 5)
    assert functions(apart, together(torch.cat(kernels), torch.cat(biases)), images).status is Status.PROVED
    little = torch.cat(biases)
    little[-1] += 1e-5
    assert functions(apart, together(torch.cat(kernels), little), images).status is not Status.PROVED
    assert functions(apart, together(torch.cat(kernels), torch.cat(biases[::-1])), images).status is Status.REFUTED


KERNELS, POINTWISE, SCALE = torch.randn(4, 4, 3, 3), torch.randn(4, 4, 1, 1), torch.rand(4) + 0.5


def convolved(x: Tensor, kernels: Tensor) -> Tensor:
    return nn.functional.conv2d(x, kernels, padding=kernels.shape[-1] // 2)


def with_added(row: int, column: int, added: Tensor) -> Tensor:
    """The kernels with a matrix added at one tap."""
    kernels = KERNELS.clone()
    kernels[:, :, row, column] += added
    return kernels


UNIT = torch.eye(4)
DEPTHWISE = torch.randn(4, 1, 3, 3)
LARGER_DENSE = nn.functional.pad(torch.cat([torch.zeros(4, 3, 3, 3), DEPTHWISE], 1), (1, 1, 1, 1))
for channel in range(4):
    LARGER_DENSE[channel] = LARGER_DENSE[channel].roll(channel + 1, 0)
LARGER_DENSE[:, :, 2, 2] += POINTWISE[:, :, 0, 0]
BRANCHES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "the image itself": (lambda x: convolved(x, KERNELS) + x, with_added(1, 1, UNIT)),
    "the image, scaled by channels": (lambda x: convolved(x, KERNELS) + x * SCALE[:, None, None], with_added(1, 1, torch.diag(SCALE))),
    "a 1x1 convolution": (lambda x: convolved(x, KERNELS) + convolved(x, POINTWISE), with_added(1, 1, POINTWISE[:, :, 0, 0])),
    "both": (lambda x: convolved(x, KERNELS) + convolved(x, POINTWISE) + x, with_added(1, 1, POINTWISE[:, :, 0, 0] + UNIT)),
    "an average pool": (
        lambda x: convolved(x, KERNELS) + nn.functional.avg_pool2d(x, 3, 1, 1), KERNELS + UNIT[:, :, None, None] / 9,
    ),
    "channels of their own, in larger kernels": (
        lambda x: nn.functional.conv2d(x, DEPTHWISE, padding=1, groups=4) + convolved(x, POINTWISE), LARGER_DENSE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_folded_into_a_kernel_are_proved(name: str) -> None:
    branches, kernels = BRANCHES[name]
    images = torch.randn(2, 4, 6, 7)
    sizes = ({0: N, 2: torch.export.Dim("h", min=1), 3: torch.export.Dim("w", min=1)},)

    def against(folded: Tensor) -> Comparison:
        before, after = Of(lambda x: torch.relu(branches(x))).eval(), Of(lambda x: torch.relu(convolved(x, folded))).eval()
        return compared(before, after, (images,), (sizes,), equality="real")

    for one, other in ((0, 0), (3, 1)):
        wrong = kernels.clone()
        wrong[one, other, 1, 1] += 1e-3
        assert against(wrong).status is Status.REFUTED
    assert against(kernels.roll(1, -1)).status is Status.REFUTED
    little = kernels.clone()
    little[0, 0, 1, 1] += 1e-5
    assert against(little).status is not Status.PROVED
    found = against(kernels)
    assert found.status is Status.PROVED, found
    assert "up to the rounding of folded constants" in found.scope


@pytest.mark.parametrize(("channels", "out", "groups"), [(4, 4, 2), (4, 2, 2), (6, 6, 3)], ids=str)
def test_a_convolution_in_groups_is_one_by_dense_kernels(channels: int, out: int, groups: int) -> None:
    weight, dense = torch.randn(out, channels // groups, 3, 3), torch.zeros(out, channels, 3, 3)
    for kernel in range(out):
        first = kernel // (out // groups) * (channels // groups)
        dense[kernel, first : first + channels // groups] = weight[kernel]

    def by(kernels: Tensor) -> Status:
        def one(x: Tensor) -> Tensor:
            return nn.functional.conv2d(x, weight, padding=1, groups=groups)

        return functions(one, lambda x: nn.functional.conv2d(x, kernels, padding=1), torch.randn(2, channels, 5, 6), equality="real").status

    assert by(dense) is Status.PROVED
    assert by(dense.roll(1, 1)) is Status.REFUTED
    little = dense.clone()
    little[-1, 0, 1, 1] += 1e-6
    assert by(little) is not Status.PROVED


def test_a_unit_matrix_beside_a_linear_layer_is_proved() -> None:
    weight = torch.randn(5, 5)
    beside = functions(
        lambda x: torch.tanh(nn.functional.linear(x, weight) + x),
        lambda x: torch.tanh(nn.functional.linear(x, weight + torch.eye(5))),
        torch.randn(3, 5),
        equality="real",
    )
    assert beside.status is Status.PROVED, beside


class Constants(nn.Module):
    """A convolution and one transposed, with a scale before or after, or folded into the weights."""

    def __init__(self, scaled: float, weight: Tensor, transposed: Tensor) -> None:
        super().__init__()
        self.scaled = scaled
        self.weight, self.transposed = nn.Parameter(weight), nn.Parameter(transposed)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.conv2d(x, self.weight) * self.scaled
        return nn.functional.conv_transpose2d(torch.relu(y), self.transposed, stride=2) * self.scaled


def test_scales_folded_into_weights_are_proved_for_symbolic_sizes() -> None:
    weight, transposed = torch.randn(4, 3, 3, 3), torch.randn(4, 2, 2, 2)
    sizes = ({0: N, 2: torch.export.Dim("h", min=4), 3: torch.export.Dim("w", min=4)},)
    before, after = Constants(0.3, weight, transposed), Constants(1.0, weight * 0.3, transposed * 0.3)
    found = compared(before.eval(), after.eval(), (torch.randn(2, 3, 8, 7),), sizes)
    assert found.status is Status.PROVED, found
    wrong = transposed * 0.3
    wrong[3, 1, 0, 1] *= 1.0001
    assert compared(before, Constants(1.0, weight * 0.3, wrong).eval(), (torch.randn(2, 3, 8, 7),), sizes).status is Status.REFUTED


X, Y = torch.randn(4, 4), torch.randn(4, 4)
PLANTED: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Tensor, ...], str]] = {
    "swapped operands": (lambda x, y: x - y, lambda x, y: y - x, (X, Y), "value"),
    "swapped operands of a product": (lambda x, y: x @ y, lambda x, y: y @ x, (X, Y), "value"),
    "dropped relu": (lambda x, y: torch.relu(x + y) + 1, lambda x, y: x + y + 1, (X, Y), "value"),
    "dropped relu of what is seldom negative": (
        lambda x: torch.relu(x + 6.5), lambda x: x + 6.5, (torch.randn(3, 3),), "NaN/inf",
    ),
    "wrong axis of a square": (lambda x: x.softmax(0), lambda x: x.softmax(1), (X,), "value"),
    "wrong axis of a mean": (lambda x: x.mean(0), lambda x: x.mean(1), (X,), "value"),
    "wrong transposition": (lambda x: x.permute(1, 2, 0), lambda x: x.permute(2, 0, 1), (torch.randn(3, 3, 3),), "value"),
    "relu that drops NaN": (torch.relu, lambda x: torch.where(x > 0, x, 0.0), (X,), "NaN/inf"),
    "clamp that drops NaN": (lambda x: x.clamp(0, 6), lambda x: torch.where(x > 6, 6.0, torch.where(x > 0, x, 0.0)), (X,), "NaN/inf"),
    "maximum that drops NaN": (torch.maximum, torch.fmax, (X, Y), "NaN/inf"),
    "product by zero": (lambda x: x * 0.0, lambda x: torch.zeros_like(x), (X,), "NaN/inf"),
    "quotient by itself": (lambda x: x / x, lambda x: torch.ones_like(x), (X,), "NaN/inf"),
    "dtype of an output": (lambda x: x.sum(0), lambda x: x.sum(0).double(), (X,), "dtype"),
    "order of outputs": (lambda x: (x + 1, x * 2), lambda x: (x * 2, x + 1), (X,), "value"),
    "number of outputs": (lambda x: (x + 1, x * 2), lambda x: x + 1, (X,), "number of outputs"),
    "shape of an output": (lambda x: x.sum(0, keepdim=True), lambda x: x.sum(0), (X,), "shape"),
    "truncation for floor": (
        lambda x: torch.div(x, 3, rounding_mode="floor"), lambda x: torch.div(x, 3, rounding_mode="trunc"), (torch.randn(4) * 9,), "value",
    ),
    "rounding in a coarser dtype": (lambda x, y: x @ y, lambda x, y: (x.half() @ y.half()).float(), (X, Y), "precision"),
    "average over padding": (
        lambda x: nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=True),
        (torch.randn(1, 2, 5, 5),), "value",
    ),
    "unbiased variance": (lambda x: x.var(1), lambda x: x.var(1, correction=0), (X,), "value"),
    "tanh approximation": (
        lambda x: nn.functional.gelu(x), lambda x: nn.functional.gelu(x, approximate="tanh"), (X,), "value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_miscompilations_are_found(name: str) -> None:
    before, after, inputs, kind = PLANTED[name]
    found = functions(before, after, *inputs, examples=40)
    assert found.status is Status.REFUTED, found
    assert found.difference is not None and found.difference.kind == kind, found
    if kind in ("value", "NaN/inf", "precision"):
        assert found.difference.before != found.difference.after and found.difference.inputs


def test_real_equality_reports_nan_instead_of_counting_it() -> None:
    found = functions(torch.relu, lambda x: torch.where(x > 0, x, 0.0), X, equality="real")
    assert found.status is Status.PROVED and any("NaN" in note for note in found.notes), found


def test_a_size_that_was_fixed_is_found() -> None:
    before, after = capture(Small(), IMAGES, SIZES), capture(Small(), IMAGES)
    found = compare_graphs(before, after)
    assert found.status is Status.REFUTED and found.difference is not None and found.difference.kind == "size"
    assert "may have size" in found.reason
    assert compare_graphs(after, before).status is Status.PROVED


def test_what_differs_only_at_size_one_is_found() -> None:
    def centred(x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)

    def centred_by_others(x: Tensor) -> Tensor:
        n = x.shape[0]
        return (x * n - x.sum(0, keepdim=True)) / (n - 1) * ((n - 1) / n)

    found = functions(centred, centred_by_others, torch.randn(3, 4), sizes=({0: N, 1: M},))
    assert found.status is Status.REFUTED, found


@pytest.mark.parametrize("number", [17.5, 1000.0, -16000.0])
def test_what_differs_only_at_a_number_that_is_written_is_found(number: float) -> None:
    found = functions(lambda x: torch.where(x == number, x + 1, x), lambda x: x + 0, X)
    assert found.status is Status.REFUTED, found


def test_batch_norm_in_training_mode_is_found() -> None:
    trained = Small()
    trained.norm.train()
    found = compared(Small(), trained)
    assert found.status is Status.REFUTED and found.difference is not None and found.difference.kind == "update"


def test_randomness_is_refused_in_a_sentence() -> None:
    noisy = nn.Sequential(nn.Dropout(0.5)).train()
    with pytest.raises(AlignmentError, match="BEFORE: must not draw random numbers"):
        compared(noisy, noisy, (X,))


def test_inputs_that_cannot_be_paired_are_refused_in_a_sentence() -> None:
    with pytest.raises(AlignmentError, match="inputs: both sides must take the same ones"):
        compare_graphs(capture(Of(lambda x: x), (X,)), capture(Of(lambda x, y: x + y), (X, Y)))


def test_wrapping_integers_are_not_proved_equal_as_numbers() -> None:
    a = torch.arange(5, dtype=torch.int8)
    found = functions(lambda x: (x * 100) // 100, lambda x: x * 1, a)
    assert found.status is Status.REFUTED, found


def test_what_cannot_be_proved_is_tested_and_named() -> None:
    found = functions(torch.erf, lambda x: 1 - torch.special.erfc(x), X)
    assert found.status is Status.TESTED and found.unproved, found


def test_what_follows_from_an_assumption_is_not_proved() -> None:
    found = functions(lambda x: torch.erf(x).clone(), lambda x: 1 - torch.special.erfc(x), X)
    assert found.status is Status.TESTED and found.unproved, found
    found = functions(lambda x: torch.erf(x).exp() + 1, lambda x: (1 - torch.special.erfc(x)).exp() + 1, X)
    assert found.status is Status.TESTED and len(found.unproved) == 1, found


def test_an_identity_before_an_operator_without_meaning_is_seen_through() -> None:
    """Sizes that may broadcast or not leave a sum uninterpreted: only equal operands show that two of them are equal."""
    onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
    from graphs.onnx import read

    def model(*nodes: Any) -> Any:
        info = onnx.helper.make_tensor_value_info
        inputs = [info("x", onnx.TensorProto.FLOAT, ["n", "m"]), info("z", onnx.TensorProto.FLOAT, ["k", "m"])]
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(*node) for node in nodes], "g", inputs, [info("y", onnx.TensorProto.FLOAT, None)]
        )
        return read(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))

    before = model(("Relu", ["x"], ["a"]), ("Identity", ["a"], ["b"]), ("Add", ["b", "z"], ["y"]))
    after = model(("Relu", ["x"], ["a"]), ("Add", ["a", "z"], ["y"]))
    found = compare_graphs(before, after, examples=2)
    assert found.status is Status.PROVED and "bit for bit" in found.scope, found


def test_an_exponent_that_is_moved_hides_nothing_that_rounded_constants_do() -> None:
    """An exponent of 2 that is moved by rounding gives NaN of negative numbers; the fold beside it may still be off by its rounding."""
    power, factor, other = torch.tensor(2.0), torch.linspace(0.3, 1.7, 40), torch.linspace(1.1, 0.4, 40)
    for wrong, refuted in ((0.0, False), (1e-4, True)):
        scale = factor * other * (1 + wrong)
        before, after = lambda x: (x * x * factor * other).sum(1), lambda x, s=scale: (torch.pow(x, power) * s).sum(1)
        found = functions(before, after, torch.randn(4, 40))
        assert (found.status is Status.REFUTED) is refuted, found
