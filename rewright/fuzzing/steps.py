"""Single statements of random models: pointwise, layers, images, reductions, shapes, joins, casts, lookups, writes."""

from __future__ import annotations

from torch import Tensor

from rewright.fuzzing.programs import Builder, floating, shape_text

_UNARY = {
    "relu": "torch.relu({0})", "tanh": "torch.tanh({0})", "sigmoid": "torch.sigmoid({0})", "gelu": "F.gelu({0})", "silu": "F.silu({0})",
    "neg": "-{0}", "abs": "{0}.abs()", "exp": "torch.exp({0}.clamp(max=4.0))", "sqrt": "torch.sqrt({0}.abs())",
    "rsqrt": "torch.rsqrt({0}.abs() + 0.5)", "leaky_relu": "F.leaky_relu({0})", "elu": "F.elu({0})", "hardswish": "F.hardswish({0})",
    "relu6": "F.relu6({0})", "clone": "{0}.clone()", "softplus": "F.softplus({0})", "erf": "torch.erf({0})", "floor": "torch.floor({0})",
    "square": "torch.square({0})", "contiguous": "{0}.contiguous()", "scaled": "{0} * 0.5 + 1", "reversed": "2 - {0}", "power": "{0} ** 2",
    "clamp": "{0}.clamp(-1.0, 1.0)", "log": "torch.log({0}.abs() + 1)", "sin": "torch.sin({0})", "reciprocal": "1 / ({0}.abs() + 1)",
    "erfinv": "torch.erfinv({0}.tanh() * 0.9)", "logit": "torch.logit({0}, 0.1)", "positive": "torch.where({0} > 0, {0}, -0.5 * {0})",
    "zeros_like": "torch.zeros_like({0})", "is_negative": "({0} < 0).to({0}.dtype)", "detach": "{0}.detach()", "mish": "F.mish({0})",
    "doubled": "{0} + {0}", "halved": "{0} / 2", "shifted": "{0} - 1.5", "zero": "{0} * 0", "one": "{0} * 1", "negated twice": "-(-{0})",
    "log_sigmoid": "F.logsigmoid({0})", "hardtanh": "F.hardtanh({0})", "hardsigmoid": "F.hardsigmoid({0})", "selu": "F.selu({0})",
    "dropout": "F.dropout({0}, 0.5, False)", "exp of log": "torch.exp(torch.log({0}.abs() + 0.5))", "sign": "torch.sign({0})",
}  # fmt: skip

_BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / ({1}.abs() + 0.5)", "maximum": "torch.maximum({0}, {1})",
    "minimum": "torch.minimum({0}, {1})", "add_scaled": "torch.add({0}, {1}, alpha=2)", "where": "torch.where({0} > {1}, {0}, {1})",
    "less": "({0} <= {1}).to({0}.dtype)", "addcmul": "torch.addcmul({0}, {1}, {1}, value=0.5)",
    "difference of squares": "({0} - {1}) * ({0} + {1})", "distributed": "{0} * {1} + {0} * 2", "rsub": "torch.rsub({0}, {1})",
}  # fmt: skip


def unary(b: Builder) -> None:
    """A pointwise function of a value."""
    k = b.pick(floating)
    if k is not None:
        name = b.choose(*_UNARY)
        b.apply(name, _UNARY[name], k)


def _broadcastable(x: Tensor, y: Tensor) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs) and max(x.numel(), y.numel()) < 5000


def binary(b: Builder) -> None:
    """A pointwise function of two values that broadcast."""
    k = b.pick(lambda x: floating(x) and _broadcastable(x, x))
    if k is None:
        return
    other = b.pick(lambda y: floating(y) and _broadcastable(b.values[k], y))
    assert other is not None
    name = b.choose(*_BINARY)
    b.apply(name, _BINARY[name], k, other)


def dtype_text(x: Tensor) -> str:
    """The dtype as code."""
    return str(x.dtype)


def layer(b: Builder) -> None:
    """A layer, parameter or buffer along the last axis."""
    k = b.pick(lambda x: floating(x) and x.dim() >= 1 and x.numel() > 0)
    if k is None:
        return
    x = b.values[k]
    width, dtype = x.shape[-1], dtype_text(x)
    kind = b.choose("linear", "square linear", "layer_norm", "parameter", "softmax", "log_softmax", "buffer", "matmul", "bias", "rms_norm")
    if kind in ("linear", "square linear"):
        out = width if kind == "square linear" else b.whole(1, 4)
        made = f"nn.Linear({width}, {out}, bias={b.flag()}, dtype={dtype})"
        b.apply(kind, f"{b.part(made)}({{0}})", k)
    elif kind in ("layer_norm", "rms_norm"):
        made = f"nn.{'LayerNorm' if kind == 'layer_norm' else 'RMSNorm'}({width}, eps=0.0625, dtype={dtype})"
        b.apply(kind, f"{b.part(made)}({{0}})", k)
    elif kind in ("parameter", "bias"):
        made = f"nn.Parameter(torch.randn({width}, dtype={dtype}))"
        b.apply(kind, f"{{0}} {'*' if kind == 'parameter' else '+'} {b.part(made)}", k)
    elif kind == "matmul" and x.dim() >= 2:
        made = f"nn.Parameter(torch.randn({width}, {b.whole(1, 4)}, dtype={dtype}))"
        b.apply(kind, f"{{0}} @ {b.part(made)}", k)
    elif kind == "buffer":
        made = f"{b.choose('buffer', 'temporary')} torch.randn({width}, dtype={dtype})"
        b.apply(kind, f"{{0}} + {b.part(made, 'buffer', share=False)}", k)
    elif kind in ("softmax", "log_softmax"):
        b.apply(kind, f"torch.{kind}({{0}}, {axis_of(b, x)})", k)


def axis_of(b: Builder, x: Tensor) -> int:
    """An axis of the tensor, counted from either end."""
    return b.whole(-x.dim(), x.dim() - 1)


_IMAGES = {
    "max_pool": "F.max_pool2d({0}, 2, 1)", "avg_pool": "F.avg_pool2d({0}, 2, 2)", "pad": "F.pad({0}, (0, 1, 1, 0))",
    "adaptive": "F.adaptive_avg_pool2d({0}, 1)", "interpolate": "F.interpolate({0}, scale_factor=2.0)",
    "padded pool": "F.avg_pool2d({0}, 3, 1, 1)",
}  # fmt: skip


def image(b: Builder) -> int | None:
    """A convolution, a norm over channels, or pooling."""
    k = b.pick(lambda x: x.dim() == 4 and str(x.dtype) in ("torch.float32", "torch.float64") and min(x.shape) >= 1)
    if k is None:
        return None
    kind = b.choose("conv", "conv1x1", "batch_norm", "group_norm", "conv and norm", "channel scale", *_IMAGES)
    if kind in _IMAGES:
        return b.apply(kind, _IMAGES[kind], k)
    if kind == "conv and norm":
        return batch_norm(b, convolution(b, k, b.choose(1, 3)))
    if kind in ("conv", "conv1x1"):
        return convolution(b, k, 3 if kind == "conv" else 1)
    if kind == "batch_norm":
        return batch_norm(b, k)
    x = b.values[k]
    c, dtype = x.shape[1], dtype_text(x)
    if kind == "group_norm":
        return b.apply(kind, f"{b.part(f'nn.GroupNorm(1, {c}, eps=0.0625, dtype={dtype})')}({{0}})", k)
    return b.apply(kind, f"{{0}} * {b.part(f'nn.Parameter(torch.randn({c}, 1, 1, dtype={dtype}))')}", k)


def convolution(b: Builder, k: int, size: int = 3, out: int | None = None, stride: int | None = None) -> int:
    """A convolution of a value, padded so that a stride of 1 keeps the image's size."""
    x = b.values[k]
    c = x.shape[1]
    groups = 1 if out is not None else b.choose(*dict.fromkeys(g for g in (1, 2, c) if c % g == 0))
    stride = b.choose(1, 1, 2) if stride is None else stride
    wide = groups * b.whole(1, 2) if out is None else out
    dilation = b.choose(1, 1, 2) if size == 3 else 1
    made = (
        f"nn.Conv2d({c}, {wide}, {size}, stride={stride}, padding={dilation * (size // 2)}, dilation={dilation}, "
        f"groups={groups}, bias={b.flag()}, dtype={dtype_text(x)})"
    )
    return b.apply("conv", f"{b.part(made)}({{0}})", k)


def batch_norm(b: Builder, k: int) -> int:
    """A batch norm over the channels of an image."""
    x = b.values[k]
    made = f"nn.BatchNorm2d({x.shape[1]}, eps={b.choose(1e-05, 0.125)}, momentum=0.1, dtype={dtype_text(x)})"
    return b.apply("batch_norm", f"{b.part(made)}({{0}})", k)


def reduction(b: Builder) -> None:
    """A reduction, a running sum, an order."""
    k = b.pick(lambda x: floating(x) and x.dim() >= 1 and min(x.shape) > 0)
    if k is None:
        return
    axis, keep = axis_of(b, b.values[k]), b.flag()
    kind = b.choose("sum", "mean", "amax", "amin", "var", "prod", "cumsum", "argmax", "max", "std", "logsumexp", "sort", "topk")
    text = {
        "cumsum": f"torch.cumsum({{0}}, {axis})",
        "argmax": f"torch.argmax({{0}}, {axis}, keepdim={keep}).to({{0}}.dtype)",
        "max": f"torch.max({{0}}, {axis}, keepdim={keep}).values",
        "sort": f"torch.sort({{0}}, dim={axis}, stable=True)[0]",
        "topk": f"torch.topk({{0}}, 1, {axis})[0]",
        "var": f"torch.var({{0}}, {axis}, unbiased=False, keepdim={keep})",
        "std": f"torch.sqrt(torch.var({{0}}, {axis}, unbiased=False, keepdim={keep}) + 0.25)",
    }.get(kind, f"torch.{kind}({{0}}, {axis}, keepdim={keep})")
    b.apply(kind, text, k)


def shaping(b: Builder) -> None:
    """A view or a rearrangement of one value."""
    k = b.pick(lambda x: x.dim() >= 1)
    if k is None:
        return
    x = b.values[k]
    axis, other = axis_of(b, x), axis_of(b, x)
    size = x.shape[axis]
    kinds = ["flatten", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "expand", "flip", "split", "roll"]
    kind = b.choose(*kinds, "repeat", "transposed twice")
    if kind == "permute":
        order = list(range(x.dim()))
        for position in range(len(order) - 1):
            swap = b.whole(position, len(order) - 1)
            order[position], order[swap] = order[swap], order[position]
        b.apply(kind, f"{{0}}.permute({shape_text(*order)})", k)
    elif kind == "slice":
        start, step = b.whole(0, max(size - 1, 0)), b.whole(1, 2)
        b.apply(kind, f"{{0}}[{':, ' * (axis % x.dim())}{start}::{step}]", k)
    elif kind == "split" and size > 1:
        pieces = b.apply(kind, f"torch.split({{0}}, {(size + 1) // 2}, {axis})", k)
        for piece in range(len(b.values[pieces])):
            b.apply("piece", f"{{0}}[{piece}]", pieces)
    else:
        text = {
            "reshape": f"{{0}}.reshape(-1, {size})" if size else "{0}.reshape(-1)",
            "flatten": "{0}.flatten()",
            "transpose": f"{{0}}.transpose({axis}, {other})",
            "transposed twice": f"{{0}}.transpose({axis}, {other}).relu().transpose({axis}, {other})",
            "unsqueeze": f"{{0}}.unsqueeze({axis})" if x.dim() < 5 else None,
            "squeeze": f"{{0}}.squeeze({axis})",
            "select": f"{{0}}.select({axis}, {size - 1})" if size else None,
            "expand": f"{{0}}.unsqueeze(0).expand(2, {', '.join(['-1'] * x.dim())})" if x.dim() < 4 else None,
            "flip": f"torch.flip({{0}}, ({axis},))",
            "roll": f"torch.roll({{0}}, 1, {axis})",
            "repeat": f"{{0}}.repeat({shape_text(2, *[1] * (x.dim() - 1))})",
        }.get(kind)
        if text is not None:
            b.apply(kind, text, k)


def joining(b: Builder) -> None:
    """Two values of one shape, joined or multiplied."""
    k = b.pick(lambda x: x.dim() >= 1)
    if k is None:
        return
    x = b.values[k]
    other = b.pick(lambda y: y.shape == x.shape and y.dtype == x.dtype)
    assert other is not None
    kind = b.choose("cat", "stack", *(["matmul"] if x.dim() >= 2 and floating(x) else []))
    text = {
        "cat": f"torch.cat([{{0}}, {{1}}], {axis_of(b, x)})",
        "stack": f"torch.stack([{{0}}, {{1}}], {axis_of(b, x)})",
        "matmul": "{0} @ {1}.transpose(-1, -2)",
    }[kind]
    b.apply(kind, text, k, other)


def cast(b: Builder) -> None:
    """A value in another dtype; what no integer can hold is clamped first."""
    k = b.pick(lambda x: True)
    assert k is not None
    dtype = b.choose("float64", "float32", "bfloat16", "int64", "bool")
    text = "{0}.nan_to_num(0.0, 9.0, -9.0)" if floating(b.values[k]) else "{0}"
    b.apply(f"to {dtype}", f"{text}.to(torch.{dtype})", k)


def lookup(b: Builder) -> None:
    """Rows of a table."""
    k = b.pick(lambda x: str(x.dtype) == "torch.int64" and x.numel() < 100)
    if k is not None:
        b.apply("embedding", f"{b.part(f'nn.Embedding(5, {b.whole(1, 3)}, dtype=torch.float64)')}({{0}}.remainder(5))", k)


_IN_PLACE = {
    "relu_ on a copy": "({0} + 1).relu_()", "add_ on a copy": "({0} * 2).add_({0})", "inplace relu": "F.relu({0} - 1, inplace=True)",
    "write a row": "{out} = {0}.clone()\n{out}[0] = 1.0",
    "write through a view": "copy = {0} + 0\ncopy.view(-1)[:1].add_(2)\n{out} = copy * 2",
    "chained": "({0} + 0).mul_(2).sub_(1).relu_()",
    "write through flatten": "copy = {0} + 0\ncopy.flatten().add_(2)\n{out} = copy * 2",
    "write under another name": "copy = {0} * 1.5\nsame = F.dropout(copy, 0.5, False)\nsame.add_(1)\n{out} = copy + same",
    "write after dropout": "copy = {0} - 1\nF.dropout(copy, 0.25, False).mul_(3)\n{out} = copy + 0.5",
    "write through contiguous": "copy = {0} * 1.5\ncopy.contiguous().add_(1)\n{out} = copy * 2",
    "write through reshape": "copy = {0} * 1.5\ncopy.reshape(-1).mul_(2)\n{out} = copy - 1",
}  # fmt: skip


def in_place(b: Builder) -> None:
    """A write into a tensor of the model's own."""
    k = b.pick(lambda x: floating(x) and x.dim() >= 1 and x.shape[0] > 0)
    if k is not None:
        name = b.choose(*_IN_PLACE)
        b.apply(name, _IN_PLACE[name], k)


STEPS = (image,) * 3 + (layer, unary, binary, shaping) * 2 + (reduction, joining, cast, lookup, in_place, in_place)
"""Every step, the frequent ones several times."""
CALM = (layer, unary, binary, joining, shaping, reduction, in_place)
"""The steps that follow a block of a family."""

__all__ = ["CALM", "STEPS", "axis_of", "batch_norm", "binary", "convolution", "dtype_text", "image", "in_place", "layer", "unary"]
