"""Strategies for whole random models: convolutional, attention, recurrent, free, and a rule's own pattern among other statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from rewright.fuzzing.programs import Builder, Impossible, Program, floating, shape_text
from rewright.fuzzing.steps import CALM, STEPS, batch_norm, binary, convolution, dtype_text, image, in_place, unary
from rewrites.rule import Rule
from rewrites.signature import TensorVariable
from verifier.instances import Space
from verifier.values import ORDINARY, POSITIVE, SMALL

DTYPES = ("float64", "float64", "float32", "bfloat16")


def convolutional(b: Builder) -> None:
    """Blocks of convolutions: norm and activation, residual, parallel branches, squeeze and excite; now and then a classifier."""
    dtype = b.choose("float64", "float64", "float32")
    k = b.given(b.whole(2, 3), b.choose(2, 4, 3), b.whole(3, 6), b.whole(3, 6), dtype=dtype)
    for _ in range(b.whole(1, 3)):
        k = _image_block(b, k)
        if b.full:
            return
    if b.flag():
        k = b.apply("pool", "F.adaptive_avg_pool2d({0}, 1).flatten(1)", k)
        made = f"nn.Linear({b.values[k].shape[-1]}, {b.whole(1, 4)}, dtype={dtype_text(b.values[k])})"
        b.apply("linear", f"{b.part(made)}({{0}})", k)


def training(b: Builder) -> None:
    """A convolutional model in training mode: batch norms use the batch's statistics, and update the running ones."""
    b.training = True
    b.__post_init__()
    convolutional(b)


def _image_block(b: Builder, k: int) -> int:
    kind = b.choose("plain", "residual", "branches", "free", "excite", "joined")
    c = b.values[k].shape[1]
    if kind == "plain":
        k = batch_norm(b, convolution(b, k, b.choose(1, 3)))
        return b.apply("activation", b.choose("F.relu({0})", "F.silu({0})", "F.hardswish({0})", "F.relu6({0})"), k)
    if kind == "residual":
        inner = batch_norm(b, convolution(b, k, 3, c, 1))
        return b.apply("residual", b.choose("F.relu({0} + {1})", "{0} + {1}"), inner, k)
    if kind == "branches":
        left, right = convolution(b, k, 3, c, 1), convolution(b, k, 1, c, 1)
        if b.flag():
            left, right = batch_norm(b, left), batch_norm(b, right)
        return b.apply("add", "{0} + {1}", left, right)
    if kind == "joined":
        left, right = convolution(b, k, 3, c, 1), convolution(b, k, b.choose(3, 1), c, 1)
        return b.apply("cat", "torch.cat([{0}, {1}], 1)", left, right)
    if kind == "excite":
        s = b.apply("squeeze", "{0}.mean((2, 3))", k)
        made = f"nn.Linear({c}, {c}, dtype={dtype_text(b.values[k])})"
        s = b.apply("linear", f"torch.sigmoid({b.part(made)}({{0}}))", s)
        return b.apply("scale", "{0} * {1}[:, :, None, None]", k, s)
    found = image(b)
    return k if found is None or b.values[found].dim() != 4 else found


def attention(b: Builder) -> None:
    """Blocks of a transformer: norm, attention of one or more heads, feed-forward, adapters of low rank."""
    dtype = b.choose(*DTYPES)
    heads = b.whole(1, 2)
    width = heads * b.whole(1, 3)
    k = b.given(2, b.whole(2, 4), width, dtype=dtype)
    for _ in range(b.whole(1, 2)):
        k = _attention_block(b, k, heads) if b.flag() else _feed_forward(b, k)


def _linear(b: Builder, k: int, out: int, bias: bool | None = None) -> int:
    x = b.values[k]
    made = f"nn.Linear({x.shape[-1]}, {out}, bias={b.flag() if bias is None else bias}, dtype={dtype_text(x)})"
    return b.apply("linear", f"{b.part(made)}({{0}})", k)


def _attention_block(b: Builder, k: int, heads: int) -> int:
    width = b.values[k].shape[-1]
    normal = k
    if b.flag():
        normal = b.apply("norm", f"{b.part(f'nn.LayerNorm({width}, eps=0.0625, dtype={dtype_text(b.values[k])})')}({{0}})", k)
    split = f".unflatten(-1, ({heads}, {width // heads})).transpose(1, 2)"
    if b.flag():
        q, key, v = (b.apply("heads", f"{{0}}{split}", _linear(b, normal, width)) for _ in range(3))
    else:
        merged = b.apply("chunk", "{0}.chunk(3, -1)", _linear(b, normal, 3 * width))
        q, key, v = (b.apply("heads", f"{{0}}[{piece}]{split}", merged) for piece in range(3))
    kind = b.choose("sdpa", "softmax", "linear attention")
    if kind == "sdpa":
        mixed = b.apply(kind, f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}, is_causal={b.flag()})", q, key, v)
    elif kind == "softmax":
        scores = b.apply("scores", b.choose("{0} @ {1}.transpose(-1, -2) * 0.5", "{0} @ {1}.transpose(-1, -2) / 2"), q, key)
        mixed = b.apply(kind, "torch.softmax({0}, -1) @ {1}", scores, v)
    else:
        mixed = b.apply(kind, "({0} @ {1}.transpose(-1, -2)) @ {2}", q, key, v)
    joined = b.apply("join", "{0}.transpose(1, 2).flatten(2)", mixed)
    return b.apply("residual", "{0} + {1}", _linear(b, joined, width), k)


def _feed_forward(b: Builder, k: int) -> int:
    width = b.values[k].shape[-1]
    kind = b.choose("plain", "gated", "adapter")
    if kind == "plain":
        inner = b.apply("activation", b.choose("F.relu({0})", "F.gelu({0})", "F.gelu({0}, approximate='tanh')"), _linear(b, k, 2 * width))
        return b.apply("residual", "{0} + {1}", _linear(b, inner, width), k)
    if kind == "gated":
        inner = b.apply("gate", "F.silu({0}) * {1}", _linear(b, k, width, False), _linear(b, k, width, False))
        return b.apply("residual", "{0} + {1}", k, _linear(b, inner, width, False))
    low = _linear(b, _linear(b, k, 1, False), width, False)
    return b.apply("adapter", "{0} + {1} * 0.5", _linear(b, k, width), low)


def recurrent(b: Builder) -> None:
    """A cell with shared weights over a few steps: plain, gated, or with a memory."""
    width, steps, dtype = b.whole(1, 3), b.whole(2, 3), b.choose(*DTYPES)
    x = b.given(2, steps, b.whole(1, 3), dtype=dtype)
    hidden = b.given(2, width, dtype=dtype)
    kind = b.choose("plain", "gated", "memory")
    gates = {"plain": 1, "gated": 2, "memory": 4}[kind]
    kept = f"torch.{dtype}"
    into = b.part(f"nn.Linear({b.values[x].shape[-1]}, {gates * width}, dtype={kept})")
    again = b.part(f"nn.Linear({width}, {gates * width}, bias={b.flag()}, dtype={kept})", share=False)
    cell = hidden
    for step in range(steps):
        row = b.apply("step", f"{{0}}[:, {step}]", x)
        total = b.apply("cell", f"{into}({{0}}) + {again}({{1}})", row, hidden)
        if kind == "plain":
            hidden = b.apply("tanh", "torch.tanh({0})", total)
        elif kind == "gated":
            hidden = b.apply("gate", f"torch.sigmoid({{0}}[:, :{width}]) * {{1}} + {{0}}[:, {width}:].tanh()", total, hidden)
        else:
            parts = b.apply("chunk", "{0}.chunk(4, 1)", total)
            cell = b.apply("memory", "{0}[0].sigmoid() * {1} + {0}[1].sigmoid() * {0}[2].tanh()", parts, cell)
            hidden = b.apply("output", "{0}[3].sigmoid() * torch.tanh({1})", parts, cell)


def free(b: Builder) -> None:
    """Any inputs, any steps."""
    for _ in range(b.whole(1, 2)):
        rank = b.choose(4, 3, 2, 1)
        shape = [b.whole(2, 4) if rank == 4 else b.whole(1, 4) for _ in range(rank)]
        whole = b.whole(0, 5) == 5
        b.given(*shape, dtype="int64" if whole else b.choose("float64", "float32", "bfloat16"), kind="whole" if whole else "normal")
    for _ in range(b.whole(3, 10)):
        _try(b, b.choose(*STEPS))
        if b.full:
            return


def writing(b: Builder) -> None:
    """Writes into tensors of the model's own, through views and other names, and what reads them."""
    b.given(b.whole(1, 3), b.whole(2, 4), dtype=b.choose("float64", "float32"))
    for _ in range(b.whole(2, 5)):
        _try(b, b.choose(in_place, in_place, binary, unary))


def _try(b: Builder, step: Callable[[Builder], Any]) -> None:
    """A step, unless PyTorch refuses what it asks for."""
    try:
        step(b)
    except Impossible:
        return


def around_rule(rule: type[Rule], line: str) -> Callable[[Builder], None]:
    """A family: the rule's own pattern at one of its instances, with statements before and after it; `line` gives the rule its name."""

    def build(b: Builder) -> None:
        place_pattern(b, rule, line)

    build.__doc__ = f"The pattern of {rule.__name__}."
    return build


@cache
def space_of(rule: type[Rule]) -> Space:
    """The rule's instances."""
    return Space(rule, 0)


def place_pattern(b: Builder, rule: type[Rule], line: str) -> None:
    """Inputs, constants and the call of a rule's pattern.

    Raises: Impossible when no instance is drawn.
    """
    space = space_of(rule)  # type: ignore[arg-type]
    places = [place for place in space.places if all(place[1].values())] or space.places
    if not places:
        raise Impossible(f"{rule.__name__} has no instance")
    ground, sizes = places[min(b.whole(0, 11), len(places) - 1)]
    found = space.build(ground, sizes, b.choose(ORDINARY, SMALL, POSITIVE), space.families[0], b.whole(0, 99))
    if found is None:
        raise Impossible(f"{rule.__name__} has no instance of these sizes")
    spoken = {name for condition in space.value_conditions for name in condition.names}
    fixed = {v.name for v in space.signature.tensors if v.weight} | spoken
    named, texts, operands = found.named, [], []
    for variable in space.signature.variables:
        value = named[variable.name]
        if not isinstance(variable, TensorVariable):
            texts.append(repr(value))
        elif variable.name in fixed:
            texts.append(b.part(f"nn.Buffer({_literal(value)})", "fixed", share=False))
        else:
            kind = "normal" if value.is_floating_point() else "bits"
            operands.append(b.given(*value.shape, dtype=dtype_text(value).removeprefix("torch."), kind=kind))
            texts.append(f"{{{len(operands) - 1}}}")
    b.use(rule.__name__, rule, line)
    if operands and b.flag():
        first = b.values[operands[0]]
        if floating(first):
            operands[0] = b.apply("before", b.choose("{0} * 0.5", "torch.tanh({0})", "torch.relu({0})"), operands[0])
    result = b.apply(rule.__name__, f"{rule.__name__}.pattern({', '.join(texts)})", *operands)
    if isinstance(b.values[result], (tuple, list)):
        b.main = [b.apply("piece", f"{{0}}[{piece}]", result) for piece in range(len(b.values[result]))]
    else:
        b.main = [result]


def _literal(tensor: Tensor) -> str:
    dtype = dtype_text(tensor)
    if tensor.numel() > 200 and tensor.is_floating_point():
        return f"torch.rand({shape_text(*tensor.shape)}, dtype={dtype}) + 0.5"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype}).reshape({list(tensor.shape)})"


FAMILIES: Mapping[str, Callable[[Builder], None]] = {
    "convolutional": convolutional, "attention": attention, "recurrent": recurrent, "free": free, "writing": writing, "training": training,
}  # fmt: skip


def _returned(b: Builder) -> Any:
    """One or several values, as a tensor, tuple, list or dict; never an input as it is. What a rule's pattern gives is among them."""
    first = len(b.inputs)
    tensors = [k for k, value in enumerate(b.values) if isinstance(value, Tensor) and k >= first] or [0]
    last = tensors[-1]
    unread = [k for k in b.main if k not in b.below(last)]
    if unread:
        return (last, *unread)
    kind = b.choose("last", "last", "several", "named", "nested", "alone")
    if kind == "last":
        return last
    if kind == "alone":
        return (last,)
    some = [b.choose(*tensors) for _ in range(b.whole(1, 3))]
    return {"several": (last, *some), "named": {"last": last, "rest": some}, "nested": [last, {"nested": (some[0], None)}]}[kind]


@st.composite
def programs(draw: Any, families: Sequence[Callable[[Builder], None]] = tuple(FAMILIES.values()), modes: bool = True) -> Program | None:
    """Random models: training or eval, static or dynamic, shared weights, several outputs; None where a draw makes none."""
    b = Builder(draw, seed=draw(st.integers(0, 9999)))
    b.training = modes and draw(st.integers(0, 5)) == 5
    dynamic = modes and draw(st.integers(0, 4)) == 4
    b.__post_init__()
    try:
        b.choose(*families)(b)
    except Impossible:
        if not b.statements:
            return None
    for _ in range(draw(st.integers(0, 3)) if modes else 0):
        if not b.full:
            _try(b, b.choose(*CALM))
    if not b.statements:
        return None
    return b.finish(_returned(b), dynamic)


def modules() -> SearchStrategy[tuple[torch.nn.Module, tuple[Tensor, ...]]]:
    """Random modules in eval mode with inputs for them."""
    return programs((free,), modes=False).filter(bool).map(_run_form)


def _run_form(program: Program | None) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    assert program is not None
    return program.module(), program.tensors()


__all__ = ["FAMILIES", "around_rule", "attention", "convolutional", "free", "modules", "programs", "recurrent", "space_of"]
