"""Convolutions, pooling, padding, resizing."""

from __future__ import annotations

from typing import Any

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells
from operators.expressions import Dim, Expression


def _numbers(spelling: Spelling, *values: Any) -> list[list[int]]:
    for value in values:
        if any(isinstance(one, Expression) for one in value):
            raise OnnxError(f"{spelling.operator}: attributes must be numbers")
    return [list(value) for value in values]


def _kernel(spelling: Spelling) -> dict[str, Any]:
    """The sizes of the weight's windows, which ONNX takes from the weight where they are not said."""
    kernel = spelling.type(1).shape[2:]
    return {} if any(isinstance(size, Expression) for size in kernel) else {"kernel_shape": list(kernel)}


@spells("Conv1d", "Conv2d", "Conv3d")
def convolution(spelling: Spelling) -> str:
    operator = spelling.operator
    stride, padding, dilation = _numbers(spelling, operator.stride, operator.padding, operator.dilation)
    inputs = [spelling[0], spelling[1], spelling[2] if spelling.has(2) else ""]
    settings: dict[str, Any] = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": int(operator.groups)}
    return str(spelling.emit("Conv", *inputs, **_kernel(spelling), **settings))


@spells("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def transposed_convolution(spelling: Spelling) -> str:
    operator = spelling.operator
    stride, padding, dilation, extra = _numbers(spelling, operator.stride, operator.padding, operator.dilation, operator.output_padding)
    inputs = [spelling[0], spelling[1], spelling[2] if spelling.has(2) else ""]
    settings: dict[str, Any] = {**_kernel(spelling), "strides": stride, "pads": padding * 2, "dilations": dilation}
    if any(extra):
        settings["output_padding"] = extra
    return str(spelling.emit("ConvTranspose", *inputs, **settings, group=int(operator.groups)))


@spells("MaxPool1d", "MaxPool2d", "MaxPool3d")
def max_pool(spelling: Spelling) -> str:
    operator = spelling.operator
    kernel, stride, padding, dilation = _numbers(spelling, operator.kernel, operator.stride, operator.padding, operator.dilation)
    settings: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": padding * 2}
    if spelling.opset >= 10:
        settings |= {"dilations": dilation, "ceil_mode": int(operator.ceil)}
    elif operator.ceil or any(d != 1 for d in dilation):
        spelling.need(10, f"{operator}")
    return str(spelling.emit("MaxPool", spelling[0], **settings))


@spells("AvgPool1d", "AvgPool2d", "AvgPool3d")
def average_pool(spelling: Spelling) -> str:
    operator = spelling.operator
    kernel, stride, padding = _numbers(spelling, operator.kernel, operator.stride, operator.padding)
    if operator.divisor is not None:
        raise OnnxError(f"{operator}: ONNX has no divisor of one's own")
    settings: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": padding * 2}
    settings["count_include_pad"] = int(operator.include_padding)
    if operator.ceil:
        spelling.need(19, "an average pool whose last window hangs over")
        settings["ceil_mode"] = 1
    return str(spelling.emit("AveragePool", spelling[0], **settings))


@spells("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d")
def adaptive_pool(spelling: Spelling) -> str:
    """To one position: a global pool; to a divisor of the size: windows side by side."""
    operator = spelling.operator
    average = "Avg" in type(operator).__name__
    sizes = spelling.type(0).shape[2:]
    if all(size == 1 for size in operator.size):
        return str(spelling.emit("GlobalAveragePool" if average else "GlobalMaxPool", spelling[0]))
    if not all(isinstance(size, int) and size % out == 0 for size, out in zip(sizes, operator.size, strict=True)):
        raise OnnxError(f"{operator}: windows of unequal sizes have no word in ONNX")
    kernel = [int(size // out) for size, out in zip(sizes, operator.size, strict=True)]
    return str(spelling.emit("AveragePool" if average else "MaxPool", spelling[0], kernel_shape=kernel, strides=kernel))


@spells("Pad")
def pad(spelling: Spelling) -> str:
    operator, rank = spelling.operator, spelling.out.ndim
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for position in range(len(operator.padding) // 2):
        before[rank - 1 - position], after[rank - 1 - position] = operator.padding[2 * position : 2 * position + 2]
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[operator.mode]
    if mode == "wrap":
        spelling.need(19, "padding with the other end")
    amounts = [*before, *after]
    dtype = spelling.out.dtype
    if spelling.opset < 11:
        value = spelling.number(1) if spelling.has(1) else 0
        if value is None:
            raise OnnxError(f"{operator}: the padding must be a number")
        (numbers,) = _numbers(spelling, amounts)
        return str(spelling.emit("Pad", spelling[0], pads=numbers, mode=mode, value=float(value)))
    inputs = [spelling[0], spelling.sizes(amounts)]
    if mode == "constant" and spelling.has(1):
        inputs.append(spelling.at(1, dtype))
    return str(spelling.emit("Pad", *inputs, mode=mode))


@spells("Interpolate")
def interpolate(spelling: Spelling) -> str:
    operator = spelling.operator
    spelling.need(11, "Resize")
    way: dict[str, Any] = {
        "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        "nearest-exact": {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"},
    }.get(
        operator.mode,
        {"mode": "linear", "coordinate_transformation_mode": "align_corners" if operator.corners else "pytorch_half_pixel"},
    )
    return _resize(spelling, spelling[0], (*spelling.out.shape[:2], *operator.size), way, operator.scales)


def _resize(spelling: Spelling, x: str, size: Any, way: dict[str, Any], scales: Any) -> str:
    import torch

    empty = spelling.held("none", torch.zeros(0)) if spelling.opset < 13 else ""
    if scales is not None:
        factors = spelling.held("scales", torch.tensor([1.0, 1.0, *scales], dtype=torch.float32))
        return str(spelling.emit("Resize", x, empty, factors, **way))
    return str(spelling.emit("Resize", x, empty, empty, spelling.sizes(size), **way))


@spells("RepeatInterleave")
def repeat_each(spelling: Spelling) -> str:
    """x with each element of an axis repeated: a resize to the nearest."""
    operator, rank = spelling.operator, spelling.out.ndim
    if not isinstance(operator.repeats, int):
        raise OnnxError(f"{operator}: the number of repetitions must be a number")
    shape = list(spelling.type(0).shape)
    axis = operator.axis + rank
    apart = spelling.reshape(spelling[0], (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    times = [1] * (rank + 1)
    times[axis + 1] = operator.repeats
    return spelling.reshape(spelling.emit("Tile", apart, spelling.integers(times)), spelling.out.shape)
