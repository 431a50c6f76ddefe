"""Hypothesis strategies: random PyTorch modules composed of operators, with inputs for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

FLOATS = (torch.float32, torch.float64, torch.bfloat16)


@dataclass
class Step:
    """One statement of a random module: `call` on earlier values and on the module's parts of these names."""

    name: str
    call: Callable[..., Any]
    operands: tuple[int, ...]
    parts: tuple[str, ...] = ()


class RandomModule(nn.Module):
    """A straight-line program over its inputs; what it returns is built by `returned` from values by number."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.returned: Any = 0
        self.count = 0

    def forward(self, *inputs: Tensor) -> Any:
        values: list[Any] = list(inputs)
        for step in self.steps:
            parts = [self.get_submodule(name) if name in self._modules else getattr(self, name) for name in step.parts]
            values.append(step.call(*parts, *(values[k] for k in step.operands)))
        return _filled(self.returned, values)

    def __repr__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps, self.count):
            operands = [*step.parts, *(f"v{operand}" for operand in step.operands)]
            lines.append(f"v{number} = {step.name}({', '.join(operands)})")
        return f"inputs v0 to v{self.count - 1}; {'; '.join(lines)}; return {self.returned}"


def _filled(form: Any, values: list[Any]) -> Any:
    if isinstance(form, dict):
        return {key: _filled(part, values) for key, part in form.items()}
    if isinstance(form, (tuple, list)):
        return type(form)(_filled(part, values) for part in form)
    return values[form] if isinstance(form, int) else form


@dataclass
class _Builder:
    """The module being drawn, run step by step on real tensors so that every shape is known."""

    draw: Any
    module: RandomModule
    values: list[Any]
    shared: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def pick(self, accept: Callable[[Tensor], bool]) -> int | None:
        """A value that is accepted, recent ones first."""
        choices = [k for k, value in enumerate(self.values) if isinstance(value, Tensor) and accept(value)]
        return self.draw(st.sampled_from(choices[::-1])) if choices else None

    def apply(self, name: str, call: Callable[..., Any], *operands: int, parts: tuple[str, ...] = ()) -> int:
        """Add a step and run it."""
        self.module.steps.append(Step(name, call, operands, parts))
        found = [self.module.get_submodule(part) if part in self.module._modules else getattr(self.module, part) for part in parts]
        with torch.no_grad():
            self.values.append(call(*found, *(self.values[k] for k in operands)))
        return len(self.values) - 1

    def part(self, key: tuple[Any, ...], make: Callable[[], Any]) -> str:
        """The name of a layer or parameter of this kind: one that is there already, or a new one."""
        if key in self.shared and self.draw(st.booleans()):
            return self.shared[key]
        name = f"part{len(self.module._modules) + len(self.module._parameters)}"
        setattr(self.module, name, make())
        self.shared[key] = name
        return name


def _floating(x: Tensor) -> bool:
    return x.is_floating_point()


def _axis(b: _Builder, x: Tensor) -> int:
    return int(b.draw(st.integers(-x.dim(), x.dim() - 1)))


_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu, "neg": torch.neg, "abs": torch.abs,
    "exp": torch.exp,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "leaky_relu": F.leaky_relu, "elu": F.elu, "hardswish": F.hardswish, "relu6": F.relu6,
    "clone": torch.clone,
    "softplus": F.softplus, "erf": torch.erf, "floor": torch.floor, "square": torch.square, "contiguous": lambda x: x.contiguous(),
    "scaled": lambda x: x * 0.5 + 1, "reversed": lambda x: 2 - x, "power": lambda x: x**2, "clamp": lambda x: x.clamp(-1.0, 1.0),
    "erfinv": torch.erfinv, "logit": lambda x: torch.logit(x, 0.1), "positive": lambda x: torch.where(x > 0, x, -0.5 * x),
    "zeros_like": torch.zeros_like, "is_negative": lambda x: (x < 0).to(x.dtype), "detach": lambda x: x.detach(),
}  # fmt: skip


def _unary(b: _Builder) -> None:
    k = b.pick(_floating)
    if k is not None:
        name = b.draw(st.sampled_from(sorted(_UNARY)))
        b.apply(name, _UNARY[name], k)


_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "add_scaled": lambda a, b: torch.add(a, b, alpha=2), "where": lambda a, b: torch.where(a > b, a, b),
    "less": lambda a, b: (a <= b).float(),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25) if a.dtype == b.dtype else a - b,
}  # fmt: skip


def _broadcastable(a: Tensor, b: Tensor) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs) and max(a.numel(), b.numel()) < 5000


def _binary(b: _Builder) -> None:
    k = b.pick(_floating)
    if k is None:
        return
    other = b.pick(lambda y: _floating(y) and _broadcastable(b.values[k], y))
    name = b.draw(st.sampled_from(sorted(_BINARY)))
    assert other is not None
    b.apply(name, _BINARY[name], k, other)


def _layer(b: _Builder) -> None:
    k = b.pick(lambda x: _floating(x) and x.dim() >= 1 and x.numel() > 0)
    if k is None:
        return
    x = b.values[k]
    width, out = x.shape[-1], int(b.draw(st.integers(1, 4)))
    kind = b.draw(st.sampled_from(["linear", "square linear", "layer_norm", "parameter", "softmax", "log_softmax", "buffer"]))
    if kind in ("linear", "square linear"):
        out = width if kind == "square linear" else out
        bias = b.draw(st.booleans())
        name = b.part(("linear", width, out, bias, x.dtype), lambda: nn.Linear(width, out, bias=bias, dtype=x.dtype))
        b.apply(kind, lambda layer, x: layer(x), k, parts=(name,))
    elif kind == "layer_norm":
        name = b.part((kind, width, x.dtype), lambda: nn.LayerNorm(width, dtype=x.dtype))
        b.apply(kind, lambda layer, x: layer(x), k, parts=(name,))
    elif kind == "parameter":
        name = b.part((kind, width, x.dtype), lambda: nn.Parameter(torch.randn(width, dtype=x.dtype)))
        b.apply(kind, lambda p, x: x * p, k, parts=(name,))
    elif kind == "buffer":
        name = f"buffer{len(b.module._buffers)}"
        b.module.register_buffer(name, torch.randn(width, dtype=x.dtype), persistent=bool(b.draw(st.booleans())))
        b.apply(kind, lambda p, x: x + p, k, parts=(name,))
    else:
        axis = _axis(b, x)
        b.apply(kind, lambda x: getattr(torch, kind)(x, axis), k)


def _spatial(b: _Builder) -> None:
    k = b.pick(lambda x: x.dim() == 4 and x.dtype in (torch.float32, torch.float64) and min(x.shape) >= 2)
    if k is None:
        return
    x = b.values[k]
    c = x.shape[1]
    kinds = ["conv", "conv", "conv1x1", "batch_norm", "max_pool", "avg_pool", "adaptive", "pad", "group_norm", "interpolate"]
    kind = b.draw(st.sampled_from(kinds))
    if kind in ("conv", "conv1x1"):
        size = 1 if kind == "conv1x1" else 3
        groups = int(b.draw(st.sampled_from([g for g in (1, 2, c) if c % g == 0])))
        stride, padding = int(b.draw(st.integers(1, 2))), (1 if size == 3 else 0)
        out = groups * int(b.draw(st.integers(1, 2)))
        key = (kind, c, out, stride, groups, x.dtype)
        name = b.part(key, lambda: nn.Conv2d(c, out, size, stride, padding, groups=groups, bias=stride == 1, dtype=x.dtype))
        b.apply(kind, lambda layer, x: layer(x), k, parts=(name,))
    elif kind in ("batch_norm", "group_norm"):
        make = nn.BatchNorm2d if kind == "batch_norm" else lambda c, dtype: nn.GroupNorm(1, c, dtype=dtype)
        name = b.part((kind, c, x.dtype), lambda: make(c, dtype=x.dtype))
        b.apply(kind, lambda layer, x: layer(x), k, parts=(name,))
    else:
        calls: dict[str, Callable[[Tensor], Tensor]] = {
            "max_pool": lambda x: F.max_pool2d(x, 2, 1), "avg_pool": lambda x: F.avg_pool2d(x, 2, 2),
            "pad": lambda x: F.pad(x, (0, 1, 1, 0)),
            "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1), "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
        }  # fmt: skip
        b.apply(kind, calls[kind], k)


def _reduce(b: _Builder) -> None:
    k = b.pick(lambda x: _floating(x) and x.dim() >= 1 and min(x.shape) > 0)
    if k is None:
        return
    axis, keep = _axis(b, b.values[k]), bool(b.draw(st.booleans()))
    names = ["sum", "mean", "amax", "amin", "var", "prod", "cumsum", "argmax", "max", "std", "logsumexp", "sort", "topk"]
    name = b.draw(st.sampled_from(names))
    if name == "cumsum":
        b.apply(name, lambda x: torch.cumsum(x, axis), k)
    elif name == "argmax":
        b.apply(name, lambda x: torch.argmax(x, axis, keepdim=keep).to(x.dtype), k)
    elif name == "max":
        b.apply(name, lambda x: torch.max(x, axis, keepdim=keep).values, k)
    elif name == "sort":
        b.apply(name, lambda x: torch.sort(x, dim=axis, stable=True)[0], k)
    elif name == "topk":
        b.apply(name, lambda x: torch.topk(x, 1, axis)[0], k)
    else:
        b.apply(name, lambda x: getattr(torch, name)(x, axis, keepdim=keep), k)


def _shape(b: _Builder) -> None:
    k = b.pick(lambda x: x.dim() >= 1)
    if k is None:
        return
    x = b.values[k]
    axis, other = _axis(b, x), _axis(b, x)
    size = x.shape[axis]
    kinds = ["flatten", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "expand", "flip", "split", "roll"]
    kind = b.draw(st.sampled_from(kinds))
    if kind == "reshape":
        b.apply(kind, lambda x: x.reshape(-1, x.shape[axis]) if size else x.reshape(-1), k)
    elif kind == "flatten":
        b.apply(kind, lambda x: x.flatten(), k)
    elif kind == "transpose":
        b.apply(kind, lambda x: x.transpose(axis, other), k)
    elif kind == "permute":
        order = tuple(b.draw(st.permutations(range(x.dim()))))
        b.apply(kind, lambda x: x.permute(order), k)
    elif kind == "unsqueeze" and x.dim() < 5:
        b.apply(kind, lambda x: x.unsqueeze(axis), k)
    elif kind == "squeeze":
        b.apply(kind, lambda x: x.squeeze(axis), k)
    elif kind == "slice":
        start, step = int(b.draw(st.integers(0, max(size - 1, 0)))), int(b.draw(st.integers(1, 2)))
        index = (slice(None),) * (axis % x.dim()) + (slice(start, None, step),)
        b.apply(kind, lambda x: x[index], k)
    elif kind == "select" and size:
        b.apply(kind, lambda x: x.select(axis, size - 1), k)
    elif kind == "expand" and x.dim() < 4:
        b.apply(kind, lambda x: x.unsqueeze(0).expand(2, *x.shape), k)
    elif kind in ("flip", "roll"):
        b.apply(kind, (lambda x: torch.flip(x, (axis,))) if kind == "flip" else (lambda x: torch.roll(x, 1, axis)), k)
    elif kind == "split" and size > 1:
        pieces = b.apply(kind, lambda x: torch.split(x, (size + 1) // 2, axis), k)
        for piece in range(len(b.values[pieces])):
            b.apply("piece", lambda parts, piece=piece: parts[piece], pieces)


def _join(b: _Builder) -> None:
    k = b.pick(lambda x: x.dim() >= 1)
    if k is None:
        return
    x = b.values[k]
    other = b.pick(lambda y: y.shape == x.shape and y.dtype == x.dtype)
    axis = _axis(b, x)
    assert other is not None
    kind = b.draw(st.sampled_from(["cat", "stack"] + (["matmul"] if x.dim() >= 2 and _floating(x) else [])))
    if kind == "matmul":
        b.apply(kind, lambda a, c: a @ c.transpose(-1, -2), k, other)
    else:
        b.apply(kind, (lambda a, c: torch.cat([a, c], axis)) if kind == "cat" else (lambda a, c: torch.stack([a, c], axis)), k, other)


def _cast(b: _Builder) -> None:
    k = b.pick(lambda x: True)
    assert k is not None
    dtype = b.draw(st.sampled_from([*FLOATS, torch.int64, torch.bool]))
    b.apply(f"to {dtype}", lambda x: x.nan_to_num(0.0, 9.0, -9.0).to(dtype) if x.is_floating_point() else x.to(dtype), k)


def _lookup(b: _Builder) -> None:
    k = b.pick(lambda x: x.dtype == torch.int64 and x.numel() < 100)
    if k is None:
        return
    width = int(b.draw(st.integers(1, 3)))
    name = b.part(("embedding", width), lambda: nn.Embedding(5, width))
    b.apply("embedding", lambda layer, x: layer(x.remainder(5)), k, parts=(name,))


def _in_place(b: _Builder) -> None:
    k = b.pick(lambda x: _floating(x) and x.dim() >= 1 and x.shape[0] > 0)
    if k is None:
        return
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "relu_ on a copy": lambda x: (x + 1).relu_(), "add_ on a copy": lambda x: (x * 2).add_(x),
        "write a row": _write_row,
        "write through a view": lambda x: _write_view(x), "inplace relu": lambda x: F.relu(x - 1, inplace=True),
        "chained": lambda x: (x + 0).mul_(2).sub_(1).relu_(),
    }  # fmt: skip
    name = b.draw(st.sampled_from(sorted(calls)))
    b.apply(name, calls[name], k)


def _write_row(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = 1.0
    return y


def _write_view(x: Tensor) -> Tensor:
    y = x + 0
    view = y.transpose(0, -1)
    view[:1].add_(2)
    return y * 2


_STEPS = (_spatial,) * 3 + (_layer, _unary, _binary, _shape) * 2 + (_reduce, _join, _cast, _lookup, _in_place)


def _returned(b: _Builder, inputs: int) -> Any:
    tensors = [k for k, value in enumerate(b.values) if isinstance(value, Tensor) and k >= inputs] or [0]
    last = tensors[-1]
    some = b.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
    forms = [last, (last, *some), {"last": last, "rest": some}, [last, {"nested": (some[0], None)}], (last,)]
    return b.draw(st.sampled_from(forms))


@st.composite
def modules(draw: Any, most_steps: int = 10) -> tuple[RandomModule, tuple[Tensor, ...]]:
    """A random module in eval mode and inputs for it: shapes, dtypes, branches, shared weights, views, writes, nested outputs."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    inputs: list[Tensor] = []
    for _ in range(draw(st.integers(1, 2))):
        rank = draw(st.sampled_from([1, 2, 3, 4, 4]))
        shape = [draw(st.integers(2, 4)) if rank == 4 else draw(st.sampled_from([1, 2, 3, 4])) for _ in range(rank)]
        if draw(st.integers(0, 5)) == 0:
            inputs.append(torch.randint(0, 5, shape))
        else:
            inputs.append(torch.randn(shape, dtype=draw(st.sampled_from(FLOATS))))
    builder = _Builder(draw, RandomModule().eval(), list(inputs))
    builder.module.count = len(inputs)
    for _ in range(draw(st.integers(3, most_steps))):
        draw(st.sampled_from(_STEPS))(builder)
        last = builder.values[-1]
        if isinstance(last, Tensor) and last.numel() > 20000:
            break
    builder.module.returned = _returned(builder, len(inputs))
    builder.module.eval()
    assert math.prod(inputs[0].shape) > 0
    return builder.module, tuple(inputs)
