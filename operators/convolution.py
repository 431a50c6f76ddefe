"""Convolutions: n samples, groups·c input channels, groups·o output channels, h x w positions, kernels kh x kw."""

from __future__ import annotations

from typing import Any, ClassVar

from operators.expressions import Dim, at_least_zero, equal, floor_divide, product
from operators.meaning import constant, total, unravel, when, within
from operators.operator import Operator, TensorType, all_of, operator, pair, require


@operator(torch="conv2d", onnx="Conv")
class Conv2d(Operator):
    """Two-dimensional cross-correlation; padding is of zeros.

    x: [n, groups*c, h, w]   weight: [groups*o, c, kh, kw]   bias: [groups*o]   ->   [n, groups*o, h', w']
    with h' = ⌊(h + 2*padding − dilation*(kh − 1) − 1) / stride⌋ + 1
    """

    stride: tuple[Dim, Dim] = (1, 1)
    padding: tuple[Dim, Dim] = (0, 0)
    dilation: tuple[Dim, Dim] = (1, 1)
    groups: Dim = 1
    absent: ClassVar[dict[int, float]] = {2: 0.0}

    def shape(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> tuple[Dim, ...]:
        require(self, x.ndim == 4 and weight.ndim == 4, f"x and weight must have 4 axes, got {x.ndim} and {weight.ndim}")
        n, channels, *sizes = x.shape
        out_channels, per_group, *kernel = weight.shape
        require(self, equal(channels, per_group * self.groups), f"channels of x must be groups * channels of weight, got {channels} and {self.groups} * {per_group}")
        require(self, equal(out_channels % self.groups, 0), f"output channels must be a multiple of groups, got {out_channels} and {self.groups}")
        if bias is not None:
            require(self, bias.ndim == 1 and equal(bias.shape[0], out_channels), f"bias must be [{out_channels}], got [{', '.join(map(str, bias.shape))}]")
        positions = []
        for size, k, s, p, d in zip(sizes, kernel, self.stride, self.padding, self.dilation, strict=True):
            room = size + 2 * p - d * (k - 1) - 1
            require(self, at_least_zero(room), f"the kernel must fit into the padded input, got size {size}, padding {p}, kernel {k}, dilation {d}")
            positions.append(floor_divide(room, s) + 1)
        return (n, out_channels, *positions)

    def element(self, at: tuple[Any, ...], x: Any, weight: Any, bias: Any = None, output: int = 0) -> Any:
        n, o, i, j = at
        per_group, kh, kw = weight.shape[1:]

        def tap(group: Any, c: Any, a: Any, b: Any) -> Any:
            y = i * self.stride[0] + a * self.dilation[0] - self.padding[0]
            z = j * self.stride[1] + b * self.dilation[1] - self.padding[1]
            there = all_of(within(y, x.shape[2]), within(z, x.shape[3]))
            return when(there, lambda: x[n, group * per_group + c, y, z], lambda: constant(0)) * weight[o, c, a, b]

        result = unravel(
            o,
            (self.groups, floor_divide(weight.shape[0], self.groups)),
            lambda group, _: total(per_group, lambda c: total(kh, lambda a: total(kw, lambda b: tap(group, c, a, b)))),
        )
        return result if bias is None else result + bias[(o,)]

    def flops(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> Dim:
        return 2 * product(self.shape(x, weight)) * product(weight.shape[1:])

    def run(self, x: Any, weight: Any, bias: Any = None) -> Any:
        import torch.nn.functional as F

        return F.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    @classmethod
    def bind(cls, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> tuple[Operator, list[Any]]:
        if padding == "valid":
            padding = 0
        elif padding == "same":
            padding = tuple(floor_divide(d * (k - 1), 2) for d, k in zip(pair(dilation), weight.shape[2:], strict=True))
        return cls(pair(stride), pair(padding), pair(dilation), groups), [input, weight, bias]
