"""`bind` turns calls of torch, in every form, into operators whose kernels give the same tensors.

Each line of `CALLS` runs twice: by torch, and with every torch function inside taken apart by `bind` and run by operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import operators  # noqa: F401 (declares them)
from operators.collectives import all_gather, all_reduce, reduce_scatter, replicate, shard
from operators.operator import Applied, Operator, Unsupported, mutates, operator_for, torch_name

torch.set_num_threads(1)


def run(operator: Operator, operands: Sequence[Any]) -> Any:
    """The operator's result, `Applied` operands computed first; what torch would give back (a tuple or one tensor)."""
    values = [
        run_all(operand.operator, operand.operands)[operand.output] if isinstance(operand, Applied) else operand for operand in operands
    ]
    result = operator.run(*values)
    return result if operator.multiple or not isinstance(result, tuple) else result[0]


def run_all(operator: Operator, operands: Sequence[Any]) -> tuple[Any, ...]:
    result = run(operator, operands)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


UNDECLARED_IS_FINE = {"__get__", "size", "dim", "__getitem__", "requires_grad_", "__set__"}


class ByOperators(TorchFunctionMode):
    """Runs every torch function by the operators that stand for it; notes which operators it met."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        declared = operator_for(function)
        if declared is None or torch_name(function) in UNDECLARED_IS_FINE:
            return function(*args, **(kwargs or {}))
        if torch_name(function).startswith("__r"):
            args = (args[1], args[0])
        operator, operands = declared.bind(*args, **(kwargs or {}))
        self.met.append(type(operator).__name__)
        with torch._C.DisableTorchFunction():
            return run(operator, operands)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        generator = torch.Generator().manual_seed(seed + sum(shape))
        return torch.randn(*shape, generator=generator)


A, B, C = numbers(2, 3, 4), numbers(2, 3, 4, seed=1), numbers(3, 1)
IMAGE, KERNEL, BIAS = numbers(2, 4, 6, 5), numbers(6, 2, 3, 2), numbers(6)
SERIES, VOLUME = numbers(2, 4, 7), numbers(2, 2, 4, 5, 4)
MATRIX, VECTOR = numbers(4, 5), numbers(4)
POSITIVE = numbers(2, 3, 4).abs() + 0.5
INTEGERS = torch.arange(-6, 6).reshape(3, 4)
MASK = A > 0
POSITIONS = torch.tensor([[0, 2], [1, 1]])
QUERY, KEY, VALUE = numbers(2, 4, 3, 8), numbers(2, 2, 5, 8), numbers(2, 2, 5, 6)
MEAN, SPREAD = numbers(4), numbers(4, seed=2).abs() + 0.5

CALLS: dict[str, list[Callable[[], Any]]] = {
    "Add": [lambda: A + B, lambda: 2 + A, lambda: torch.add(A, B, alpha=2), lambda: A.add(C), lambda: torch.ops.aten.add.Tensor(A, B)],
    "Subtract": [lambda: A - B, lambda: 2 - A, lambda: torch.rsub(A, B), lambda: torch.sub(A, B, alpha=0.5), lambda: torch.ops.aten.rsub.Scalar(A, 3)],
    "Multiply": [lambda: A * B, lambda: 3 * A, lambda: torch.outer(VECTOR, VECTOR), lambda: torch.ops.aten.mul.Scalar(A, 2.0)],
    "Divide": [lambda: A / B, lambda: 1 / A, lambda: torch.true_divide(A, 2), lambda: INTEGERS / 2],
    "FloorDivide": [lambda: INTEGERS // 4, lambda: torch.div(A, B, rounding_mode="floor"), lambda: 7 // POSITIVE],
    "TruncDivide": [lambda: torch.div(INTEGERS, 4, rounding_mode="trunc")],
    "Remainder": [lambda: INTEGERS % 4, lambda: torch.remainder(A, 2)],
    "TruncRemainder": [lambda: torch.fmod(INTEGERS, 4)],
    "Power": [lambda: POSITIVE**3, lambda: torch.pow(2, A), lambda: POSITIVE**0.5, lambda: 2**A],
    "Square": [lambda: A**2, lambda: torch.square(A), lambda: A.pow(2.0)],
    "Clamp": [
        lambda: A.clamp(0.0, 1.0), lambda: torch.clamp(A, max=0.5), lambda: A.clamp_min(0), lambda: A.clamp_max(0.1), lambda: F.hardtanh(A),
        lambda: F.hardtanh(A, -2.0, 0.5), lambda: torch.clip(A, -1),
    ],
    "Maximum": [lambda: torch.maximum(A, B), lambda: torch.max(A, B), lambda: torch.max(A, other=B)],
    "Minimum": [lambda: torch.minimum(A, B), lambda: torch.min(A, B)],
    "Where": [lambda: torch.where(MASK, A, B), lambda: torch.where(MASK, A, 0.0), lambda: A.masked_fill(MASK, -1e9), lambda: A.masked_fill(MASK, 0)],
    "BitwiseAnd": [lambda: MASK & (B > 0), lambda: INTEGERS & 3],
    "BitwiseOr": [lambda: MASK | (B > 0)],
    "BitwiseNot": [lambda: ~MASK],
    "LessEqual": [lambda: A <= B, lambda: A.le(0)],
    "Equal": [lambda: INTEGERS == 2, lambda: torch.eq(A, B)],
    "Cast": [lambda: A.to(torch.float64), lambda: A.double(), lambda: A.long(), lambda: A.type_as(INTEGERS), lambda: A.to(dtype=torch.bfloat16)],
    "Relu": [lambda: F.relu(A), lambda: torch.relu(A), lambda: A.relu()],
    "Gelu": [lambda: F.gelu(A), lambda: F.gelu(A, approximate="tanh")],
    "Elu": [lambda: F.elu(A), lambda: F.elu(A, 0.5), lambda: F.celu(A, 2.0), lambda: torch.ops.aten.elu(A, 1.0, 2.0, 0.5)],
    "LeakyRelu": [lambda: F.leaky_relu(A), lambda: F.leaky_relu(A, 0.2)],
    "Softplus": [lambda: F.softplus(A), lambda: F.softplus(A, 2.0, 1.0)],
    "PRelu": [lambda: F.prelu(A, VECTOR[:1]), lambda: F.prelu(A, VECTOR[:3])],
    "Glu": [lambda: F.glu(A), lambda: F.glu(IMAGE, 1)],
    "Silu": [lambda: F.silu(A), lambda: torch.ops.aten.silu(A)],
    "MatMul": [lambda: A @ MATRIX, lambda: torch.bmm(A, B.mT), lambda: torch.mm(MATRIX.t(), MATRIX), lambda: torch.ops.aten.mm(MATRIX.t(), MATRIX)],
    "Linear": [lambda: F.linear(A, MATRIX.t()), lambda: F.linear(A, MATRIX.t(), numbers(5))],
    "AddMatMul": [
        lambda: torch.addmm(numbers(5), MATRIX.t(), numbers(4, 5)), lambda: torch.addmm(numbers(5), MATRIX.t(), numbers(4, 5), beta=0.5, alpha=2),
        lambda: torch.baddbmm(numbers(2, 3, 3), A, B.mT),
    ],
    "Einsum": [
        lambda: torch.einsum("bij,jk->bik", A, MATRIX), lambda: torch.einsum("...ij,jk", A, MATRIX), lambda: torch.einsum("bij, bkj -> bik", A, B),
        lambda: torch.einsum("ij,j", [MATRIX, numbers(5)]), lambda: torch.tensordot(A, MATRIX, 1), lambda: torch.tensordot(A, B, ([0, 1], [0, 1])),
    ],
    "Conv1d": [lambda: F.conv1d(SERIES, numbers(6, 2, 3), BIAS, 2, 1, 2, 2), lambda: F.conv1d(SERIES, numbers(6, 4, 4), padding="same")],
    "Conv2d": [
        lambda: F.conv2d(IMAGE, KERNEL, BIAS, groups=2), lambda: F.conv2d(IMAGE, KERNEL, None, (2, 1), (1, 0), 1, 2),
        lambda: F.conv2d(IMAGE, KERNEL, BIAS, padding="same", groups=2), lambda: F.conv2d(IMAGE, KERNEL, padding="valid", groups=2, dilation=2),
        lambda: torch.conv2d(IMAGE, KERNEL, groups=2), lambda: torch.convolution(IMAGE, KERNEL, BIAS, [1, 2], [1, 1], [1, 1], False, [0, 0], 2),
    ],
    "Conv3d": [lambda: F.conv3d(VOLUME, numbers(3, 2, 2, 3, 2), None, 1, 1)],
    "ConvTranspose1d": [lambda: F.conv_transpose1d(SERIES, numbers(4, 3, 3), stride=2, padding=1, output_padding=1)],
    "ConvTranspose2d": [
        lambda: F.conv_transpose2d(IMAGE, numbers(4, 3, 3, 2), numbers(6), 2, 1, 1, 2, 1),
        lambda: torch.convolution(IMAGE, numbers(4, 3, 3, 2), None, [2, 2], [0, 0], [1, 1], True, [0, 1], 1),
    ],
    "BatchNorm": [
        lambda: F.batch_norm(IMAGE, MEAN, SPREAD), lambda: F.batch_norm(IMAGE, MEAN, SPREAD, VECTOR, MEAN, False, 0.1, 1e-3),
        lambda: F.batch_norm(IMAGE, None, None, VECTOR, training=True), lambda: torch.batch_norm(IMAGE, VECTOR, MEAN, MEAN, SPREAD, False, 0.1, 1e-5, True),
        lambda: torch.ops.aten.batch_norm(IMAGE, None, None, MEAN, SPREAD, False, 0.1, 1e-5, False),
    ],
    "LayerNorm": [lambda: F.layer_norm(A, (4,), VECTOR, VECTOR, 1e-3), lambda: F.layer_norm(A, (3, 4)), lambda: torch.layer_norm(A, (4,), VECTOR, None, 1e-5, True)],
    "RMSNorm": [lambda: F.rms_norm(A, (4,)), lambda: F.rms_norm(A, (4,), VECTOR, 1e-3)],
    "GroupNorm": [lambda: F.group_norm(IMAGE, 2, VECTOR, MEAN), lambda: torch.group_norm(IMAGE, 2)],
    "InstanceNorm": [lambda: F.instance_norm(IMAGE), lambda: F.instance_norm(IMAGE, weight=VECTOR, bias=MEAN)],
    "Softmax": [lambda: F.softmax(A, 1), lambda: A.softmax(-1), lambda: torch.softmax(A, -1, torch.float64), lambda: F.softmin(A, -1), lambda: F.softmax(A, -1, dtype=torch.float64)],
    "LogSoftmax": [lambda: F.log_softmax(A, 1), lambda: torch.log_softmax(A, -1)],
    "LogSumExp": [lambda: torch.logsumexp(A, (0, 1)), lambda: A.logsumexp(-1, True)],
    "Attention": [
        lambda: F.scaled_dot_product_attention(A, B, B), lambda: F.scaled_dot_product_attention(A, B, B, is_causal=True, scale=0.3),
        lambda: F.scaled_dot_product_attention(QUERY, KEY, VALUE, enable_gqa=True), lambda: F.scaled_dot_product_attention(A, B, B, attn_mask=numbers(3, 3) > 0),
    ],
    "Sum": [lambda: A.sum(), lambda: torch.sum(A, 1), lambda: A.sum((0, -1), keepdim=True), lambda: MASK.sum(-1), lambda: A.sum(0, dtype=torch.float64)],
    "Mean": [lambda: A.mean(), lambda: torch.mean(A, (1, 2), True), lambda: torch.ops.aten.mean.dim(A, [1])],
    "Amax": [lambda: A.amax((0, 1)), lambda: A.max(), lambda: torch.amax(A, -1, True)],
    "Amin": [lambda: A.amin(0), lambda: A.min()],
    "MaxAlong": [lambda: A.max(1), lambda: torch.max(A, -1, keepdim=True), lambda: A.max(dim=0)[0]],
    "MinAlong": [lambda: A.min(dim=1)],
    "ArgMax": [lambda: A.argmax(), lambda: A.argmax(-1), lambda: torch.argmax(A, 0, keepdim=True)],
    "Product": [lambda: A.prod(), lambda: A.prod(1), lambda: torch.prod(A, 0, True)],
    "Variance": [lambda: A.var(), lambda: A.var(1), lambda: torch.var(A, (0, 1), correction=0), lambda: A.var(-1, unbiased=False, keepdim=True), lambda: torch.var(A, False)],
    "StandardDeviation": [lambda: A.std(), lambda: torch.std(A, 1, True)],
    "EuclideanNorm": [lambda: A.norm(), lambda: torch.linalg.vector_norm(A, dim=-1), lambda: A.norm(2, 1), lambda: A.norm(p=2, dim=-1, keepdim=True)],
    "All": [lambda: MASK.all(), lambda: torch.all(MASK, 0)],
    "AnyOf": [lambda: MASK.any(), lambda: MASK.any(-1, True)],
    "Cumsum": [lambda: A.cumsum(1), lambda: torch.cumsum(MASK, -1)],
    "Reshape": [
        lambda: A.reshape(6, 4), lambda: A.view(2, -1), lambda: A.view((-1,)), lambda: A.flatten(1), lambda: torch.flatten(A), lambda: A.unsqueeze(0), lambda: A.unsqueeze(-1),
        lambda: C.squeeze(), lambda: C.squeeze(1), lambda: C.squeeze((0, 1)), lambda: A.unflatten(-1, (2, 2)), lambda: A.unflatten(2, (-1, 2)), lambda: A.view_as(B),
        lambda: A.reshape(shape=(4, 6)), lambda: A.squeeze(-1), lambda: torch.ops.aten._unsafe_view(A, [24]), lambda: MATRIX @ numbers(5), lambda: VECTOR @ MATRIX,
        lambda: VECTOR.dot(VECTOR), lambda: A @ VECTOR, lambda: VECTOR @ numbers(2, 4, 3),
    ],
    "Permute": [
        lambda: A.permute(2, 0, 1), lambda: A.permute((0, 2, 1)), lambda: A.transpose(0, 1), lambda: MATRIX.t(), lambda: MATRIX.T, lambda: A.mT, lambda: A.movedim(0, -1),
        lambda: torch.movedim(IMAGE, (0, 1), (2, 0)), lambda: torch.swapaxes(A, 1, 2), lambda: A.permute(0, 1, 2), lambda: VECTOR.t(),
    ],
    "Expand": [lambda: C.expand(2, 3, 4), lambda: C.expand(-1, 5), lambda: C.expand_as(A), lambda: torch.broadcast_to(C, (3, 2))],
    "Slice": [lambda: torch.narrow(A, 1, 1, 2), lambda: torch.ops.aten.slice(A, 2, 1, 9223372036854775807, 2), lambda: torch.ops.aten.slice.Tensor(A, 0, -1)],
    "Select": [lambda: A.select(1, -1), lambda: torch.select(A, 0, 1)],
    "Cat": [lambda: torch.cat([A, B], 1), lambda: torch.cat((A, B), dim=-1), lambda: torch.concat([A, INTEGERS.expand(2, 3, 4)])],
    "Stack": [lambda: torch.stack([A, B]), lambda: torch.stack((A, B), -1)],
    "Split": [
        lambda: A.split(2, 1), lambda: torch.split(A, [1, 3], dim=-1), lambda: A.chunk(2, -1), lambda: A.chunk(2, 1), lambda: torch.chunk(A, 5, 1),
        lambda: torch.ops.aten.split_with_sizes(A, [1, 2], 1), lambda: A.split(split_size=3, dim=2),
    ],
    "Unbind": [lambda: A.unbind(1), lambda: torch.unbind(A, -1)],
    "Pad": [
        lambda: F.pad(A, (1, 2)), lambda: F.pad(A, (1, -1, 0, 2), value=3.0), lambda: F.pad(IMAGE, (1, 2, 2, 1), mode="reflect"), lambda: F.pad(SERIES, (1, 2), mode="replicate"),
        lambda: F.pad(SERIES, (2, 3), mode="circular"), lambda: torch.ops.aten.constant_pad_nd(A, [1, 1], 2.0), lambda: torch.ops.aten.reflection_pad2d(IMAGE, [1, 1, 2, 0]),
    ],
    "Flip": [lambda: A.flip(0, 2), lambda: torch.flip(A, (1,)), lambda: torch.flip(A, [-1])],
    "Roll": [lambda: torch.roll(A, 1, 0), lambda: A.roll((1, -1), (1, 2)), lambda: A.roll(shifts=(-5,), dims=(1,))],
    "Repeat": [lambda: A.repeat(2, 1, 1, 3), lambda: torch.tile(A, (2,)), lambda: A.repeat((1, 2, 1))],
    "RepeatInterleave": [lambda: A.repeat_interleave(3, 1), lambda: torch.repeat_interleave(A, 2, dim=-1)],
    "Tril": [lambda: A.tril(), lambda: torch.tril(A, 1)],
    "Triu": [lambda: A.triu(diagonal=1)],
    "MaxPool2d": [lambda: F.max_pool2d(IMAGE, 2), lambda: F.max_pool2d(IMAGE, (3, 2), 1, (1, 1), 2), lambda: F.max_pool2d(IMAGE, 3, stride=2, ceil_mode=True)],
    "MaxPool1d": [lambda: F.max_pool1d(SERIES, 2)],
    "AvgPool2d": [lambda: F.avg_pool2d(IMAGE, 2), lambda: F.avg_pool2d(IMAGE, 3, 1, 1, False, False), lambda: F.avg_pool2d(IMAGE, 3, padding=1, divisor_override=2)],
    "AvgPool1d": [lambda: F.avg_pool1d(SERIES, 3, 2, 1)],
    "AdaptiveAvgPool2d": [lambda: F.adaptive_avg_pool2d(IMAGE, 1), lambda: F.adaptive_avg_pool2d(IMAGE, (None, 2)), lambda: F.adaptive_avg_pool2d(IMAGE, (4, 3))],
    "AdaptiveMaxPool2d": [lambda: F.adaptive_max_pool2d(IMAGE, 2)],
    "Embedding": [lambda: F.embedding(POSITIONS, MATRIX), lambda: F.embedding(POSITIONS, MATRIX, padding_idx=0), lambda: torch.ops.aten.embedding(MATRIX, POSITIONS, 1)],
    "Gather": [lambda: torch.gather(MATRIX, 1, POSITIONS), lambda: MATRIX.gather(0, POSITIONS)],
    "IndexSelect": [lambda: torch.index_select(A, 1, POSITIONS[0]), lambda: A.index_select(-1, POSITIONS[1])],
    "Index": [lambda: torch.ops.aten.index(A, [None, POSITIONS]), lambda: torch.ops.aten.index.Tensor(A, [POSITIONS - 1, POSITIONS])],
    "OneHot": [lambda: F.one_hot(POSITIONS, 4)],
    "TopK": [lambda: A.topk(2), lambda: torch.topk(A, 2, 1)],
    "Dropout": [lambda: F.dropout(A, 0.3, False), lambda: F.dropout2d(IMAGE, 0.3, False)],
    "Interpolate": [
        lambda: F.interpolate(IMAGE, scale_factor=2), lambda: F.interpolate(IMAGE, (7, 3), mode="bilinear", align_corners=False), lambda: F.interpolate(SERIES, 11, mode="linear"),
        lambda: F.interpolate(IMAGE, scale_factor=(1.5, 0.5), mode="bilinear", align_corners=True), lambda: F.interpolate(VOLUME, size=(3, 3, 9), mode="trilinear"),
        lambda: F.interpolate(IMAGE, scale_factor=1.3, mode="nearest-exact"), lambda: torch.ops.aten.upsample_bilinear2d.vec(IMAGE, None, False, [2.0, 1.5]),
        lambda: torch.ops.aten.upsample_nearest2d.default(IMAGE, [9, 10]), lambda: torch.ops.aten.upsample_nearest2d.vec(IMAGE, [12, 10], None),
    ],
    "MeanSquaredError": [lambda: F.mse_loss(A, B), lambda: F.mse_loss(A, B, reduction="sum"), lambda: torch.ops.aten.mse_loss(A, B, 0)],
    "CrossEntropy": [
        lambda: F.cross_entropy(MATRIX, torch.tensor([0, 1, 2, 3])), lambda: F.cross_entropy(A, POSITIONS.repeat(1, 2), reduction="none"),
        lambda: F.cross_entropy(MATRIX, torch.tensor([0, -100, 2, 3])), lambda: torch.ops.aten.cross_entropy_loss(MATRIX, torch.tensor([0, 1, 2, 3]), None, 2),
    ],
    "Full": [
        lambda: torch.zeros_like(A), lambda: torch.ones_like(A, dtype=torch.int64), lambda: torch.full_like(A, 2), lambda: A.new_zeros(3, 2), lambda: A.new_full((2,), 1),
        lambda: torch.zeros(2, 3), lambda: torch.ones((2,), dtype=torch.float64), lambda: torch.full((2, 2), 7), lambda: A.new_ones((2, 1)),
    ],
    "Arange": [lambda: torch.arange(5), lambda: torch.arange(1, 7, 2), lambda: torch.arange(0, 3, dtype=torch.float32), lambda: torch.arange(end=4)],
    "Eye": [lambda: torch.eye(3), lambda: torch.eye(2, 4, dtype=torch.float64)],
    "AllReduce": [lambda: all_reduce(A), lambda: all_reduce(A, by="max")],
    "AllGather": [lambda: all_gather(A, -1), lambda: all_gather(A, 0)],
    "ReduceScatter": [lambda: reduce_scatter(A, 1)],
    "Shard": [lambda: shard(A, 2, -1), lambda: shard(A, 3, 1)],
    "Replicate": [lambda: replicate(A, 3)],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CALLS))
def test_calls_bind_to_the_same_function(name: str) -> None:
    for call in CALLS[name]:
        with ByOperators() as by_operators:
            found = call()
        expected = call()
        assert name in by_operators.met, f"{name} is met, got {by_operators.met}"
        same(expected, found)


def same(expected: Any, found: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for left, right in zip(expected, found):
            same(left, right)
        return
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


REFUSED: list[Callable[[], Any]] = [
    lambda: F.relu(A, inplace=True),
    lambda: torch.add(A, B, out=torch.empty(2, 3, 4)),
    lambda: F.conv2d(IMAGE[0], KERNEL, groups=2),
    lambda: A.topk(2, largest=False),
    lambda: torch.round(A, decimals=2),
    lambda: A.roll(1),
    lambda: F.scaled_dot_product_attention(A, B, B, dropout_p=0.5),
    lambda: F.embedding(POSITIONS, MATRIX, max_norm=1.0),
    lambda: torch.ops.aten.index(A, [MASK]),
    lambda: torch.ops.aten.index(A, [POSITIONS, None, POSITIONS]),
    lambda: F.one_hot(POSITIONS),
    lambda: A.norm(1),
    lambda: torch.einsum("...ij,...jk->...ik", A, MATRIX),
    lambda: INTEGERS.masked_fill(INTEGERS > 0, 0.5),
    lambda: F.interpolate(IMAGE, scale_factor=2, mode="bicubic"),
    lambda: F.batch_norm(IMAGE, MEAN.clone(), SPREAD.clone(), training=True, momentum=None),
    lambda: F.dropout2d(IMAGE, 0.5, True),
    lambda: F.cross_entropy(MATRIX, torch.tensor([0, 1, 2, 3]), label_smoothing=0.1),
    lambda: torch.arange(0.0, 1.0, 0.25),
    lambda: torch.std_mean(A),
    lambda: A.view(torch.int32),
]


@pytest.mark.parametrize("position", range(len(REFUSED)))
def test_forms_that_are_not_covered_are_refused(position: int) -> None:
    with pytest.raises(Unsupported), ByOperators():
        REFUSED[position]()


def test_in_place_forms_are_known_as_such() -> None:
    assert mutates(torch.Tensor.add_) and operator_for(torch.Tensor.add_) is operator_for(torch.add)
    assert mutates(torch.ops.aten.relu_.default) and operator_for(torch.ops.aten.relu_.default) is operator_for(torch.relu)
    assert mutates(torch.Tensor.__iadd__) and operator_for(torch.Tensor.__iadd__) is operator_for(torch.add)
    assert not mutates(torch.Tensor.__add__) and not mutates(torch.Tensor.__invert__) and not mutates(torch.add)
