"""Capturing modules: weights, sizes, writes, effects, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from examples.models import BLOCKS
from graphs.capture import CaptureError, capture
from graphs.emit import to_module
from graphs.interface import interface_of
from operators.normalisation import BatchNorm
from operators.opaque import Opaque
from operators.operator import Effect
from operators.sources import Constant, Input
from tests.graphs.roundtrip import assert_same, round_trip

torch.set_num_threads(1)


def count(graph: Any, kind: type) -> int:
    return sum(isinstance(graph.operator(node), kind) for node in graph)


class Lambda(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize("name", ["two_branch_block", "nasrnn", "lora_transformer", "linear_attention_transformer"])
def test_blocks_round_trip_without_opaque_nodes(name: str) -> None:
    module, inputs = BLOCKS[name]()
    with torch.no_grad():
        graph, _ = round_trip(module, inputs)
    assert count(graph, Opaque) == 0


def test_resnet50_of_transformers_round_trips() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    module = transformers.ResNetForImageClassification(transformers.ResNetConfig()).eval()
    with torch.no_grad():
        graph, emitted = round_trip(module, {"pixel_values": torch.randn(2, 3, 64, 64)})
    assert count(graph, BatchNorm) == 53 and count(graph, Opaque) == 0
    assert type(emitted(pixel_values=torch.randn(2, 3, 64, 64))).__name__ == "ImageClassifierOutputWithNoAttention"


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("offset", torch.tensor([1.0]), persistent=False)
        self.never_read = nn.Parameter(torch.ones(3))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.layer(self.layer(self.embed(tokens)))
        return self.head(x * self.scale + self.offset)


def test_shared_weights_stay_shared_under_all_their_names() -> None:
    module = Tied().eval()
    graph, emitted = round_trip(module, (torch.randint(0, 7, (2, 3)),))
    assert emitted.head.weight is emitted.embed.weight is module.embed.weight
    assert emitted.layer.weight is module.layer.weight and emitted.never_read is module.never_read
    assert sum(getattr(graph.operator(node), "name", "") in ("embed.weight", "head.weight") for node in graph) == 1
    assert dict(emitted.named_buffers())["offset"] is module.offset and "offset" not in emitted.state_dict()


def test_weights_load_into_the_emitted_module() -> None:
    module, other = Tied().eval(), Tied().eval()
    emitted = to_module(capture(module, (torch.randint(0, 7, (2, 3)),)))
    emitted.load_state_dict(other.state_dict())
    tokens = torch.randint(0, 7, (2, 3))
    assert_same(other(tokens), emitted(tokens))


def test_dynamic_sizes_stay_dynamic() -> None:
    def forward(x: Tensor) -> Tensor:
        n, s, width = x.shape
        y = x.view(n, s, 2, width // 2).transpose(1, 2)
        mask = torch.arange(s)[:, None] >= torch.arange(s)[None, :]
        z = torch.cat([(y @ y.transpose(-1, -2)).masked_fill(~mask, 0.0).softmax(-1) @ y, y], 2) * s
        return z.reshape(n * 2, -1)[:, : 3 * s] + torch.zeros(n * 2, 1)

    sizes = (({0: Dim("batch", min=2), 1: Dim("length", min=2)},),)
    example, others = torch.randn(3, 5, 4), [(torch.randn(n, s, 4),) for n, s in ((2, 2), (4, 9), (7, 3))]
    graph, _ = round_trip(Lambda(forward).eval(), (example,), sizes, others)
    assert count(graph, Opaque) == 0
    assert len({str(dim) for dim in graph.types(graph.inputs[0])[0].shape}) == 3
    assert set(interface_of(graph).hints.values()) == {3, 5}


def test_a_static_graph_refuses_other_sizes() -> None:
    from graphs.evaluate import evaluate

    graph = capture(nn.ReLU(), (torch.ones(2, 3),))
    with pytest.raises(ValueError, match=r"must be \[2, 3\], got \[2, 4\]"):
        evaluate(graph, [torch.ones(2, 4)])


def test_nested_outputs_and_arguments_come_back_as_they_were() -> None:
    def forward(x: Tensor, more: dict[str, Any], flag: bool) -> Any:
        y = x + more["a"][0]
        return {"sum": (y, None, 3), "parts": [x, more["b"] * 2 if flag else x], "size": x.shape[0]}

    class Named(nn.Module):
        def forward(self, x: Tensor, *, more: Any, flag: bool = False) -> Any:
            return forward(x, more, flag)

    more = {"a": [torch.ones(2)], "b": torch.randn(3)}
    round_trip(Lambda(forward).eval(), (torch.randn(2), more, True))
    round_trip(Named().eval(), ((torch.randn(2),), {"more": more, "flag": True}))
    round_trip(Named().eval(), {"x": torch.randn(2), "more": more})


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes_are_kept(dtype: torch.dtype) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()).to(dtype).eval()
    _, emitted = round_trip(module, (torch.randn(2, 4, dtype=dtype),))
    assert {parameter.dtype for parameter in emitted.parameters()} == {dtype}


def test_made_tensors_follow_the_device_of_the_inputs() -> None:
    emitted = to_module(capture(Lambda(lambda x: x + torch.arange(3) * torch.full((3,), 2.0)).eval(), (torch.ones(3),)))
    assert emitted(torch.ones(3, device="meta")).device.type == "meta"


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "on a fresh tensor": lambda x: (x + 1).mul_(2),
    "twice, read in between": lambda x: (lambda y: (y.clone(), y.add_(1), y.mul_(y)))(x * 2),
    "read after the write": lambda x: (lambda y: (y.relu_(), y + 1)[1])(x - 1),
    "seen through an older view": lambda x: (lambda y: (lambda v: (y.mul_(3), v)[1])(y.view(-1)))(x + 0),
    "through a view": lambda x: (lambda y: (y[0].add_(5), y)[1])(x + 0),
    "through a transposed view": lambda x: (lambda y: (y.t().add_(5), y)[1])(x + 0),
    "on what a dropout in eval mode hands through": lambda x: (lambda y: (F.dropout(y, 0.5, False).add_(1), y)[1])(x + 0),
    "on a reshape that may be a view": lambda x: (lambda y: (y.reshape(-1).add_(1), y)[1])(x + 0),
    "on a contiguous that may be itself": lambda x: (lambda y: (y.contiguous().add_(1), y)[1])(x + 0),
    "on a part of a split": lambda x: (lambda y: (y.split(1)[0].add_(1), y)[1])(x + 0),
    "on one of several outputs": lambda x: (lambda v: (v[0].div_(2), v[1], v[0] + 1))(torch.topk(x, 2)),
    "on one of several outputs, seen through a view": lambda x: (lambda v: (lambda w: (v[0].div_(2), w))(v[0].view(-1)))(torch.topk(x, 2)),
    "before a view is made": lambda x: (x + 0).mul_(2).view(-1) + 1,
    "before and after a view is made": lambda x: (lambda y: (lambda v: (y.add_(1), v * 2))(y.mul_(2).view(-1)))(x + 0),
    "on a view made after a write": lambda x: (lambda y: (y.view(-1).add_(1), y)[1])((x + 0).mul_(2)),
    "before a view of an older name is made": lambda x: (lambda y: (y.mul_(2), y.view(-1))[1])(x + 0),
    "by an index": lambda x: (lambda y: (y.__setitem__((slice(None), 0), 7.0), y)[1])(x.clone()),
    "on the input": lambda x: x.add_(1) * 2,
    "on the input, through a view": lambda x: (x[0].zero_(), x * 2)[1],
    "on a relu in place": lambda x: F.relu(x + 1, inplace=True) + 1,
    "into a result of out=": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "with a wider operand": lambda x: (x + 1).add_(torch.ones(1, dtype=torch.float64)),
    "copy_ from another dtype": lambda x: (x + 1).copy_(torch.arange(6).view(2, 3)),
    "fill_": lambda x: (x + 1).fill_(2.0),
    "on an integer cast": lambda x: x.to(torch.int64).add_(3),
    "on a cast that is no cast": lambda x: (lambda y: (y.to(torch.float32).add_(3), y)[1])(x + 0),
    "on an expanded copy": lambda x: x[0].expand(4, 3).clone().add_(x[1]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_functional_or_kept(name: str) -> None:
    round_trip(Lambda(WRITES[name]).eval(), (torch.randn(2, 3),))


class Stateful(nn.Module):
    """Buffers that a call updates, one of them returned as it was before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("other", torch.ones(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before = self.last.clone()
        self.count.add_(1)
        kept = self.other.clone()
        self.other.copy_(self.last)
        self.last.copy_(kept + x)
        return x * self.count, before, before.view(3, 1) + 0


def test_buffer_updates_are_reproduced_call_after_call() -> None:
    calls = [(torch.randn(3),) for _ in range(3)]
    graph, _ = round_trip(Stateful().eval(), (torch.randn(3),), again=calls)
    interface = interface_of(graph)
    assert sorted(interface.state.values()) == ["count", "last", "other"]
    assert sorted(map(str, interface.updates.values())) == ["count", "last", "other"]
    assert not any(isinstance(graph.operator(node), Constant) and graph.operator(node).name == "count" for node in graph)


def test_batch_norm_in_training_mode_updates_its_statistics() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).train()
    calls = [(torch.randn(4, 2, 5, 5),) for _ in range(3)]
    graph, emitted = round_trip(module, (torch.randn(4, 2, 5, 5),), again=calls)
    assert emitted.training and int(emitted.state_dict()["1.num_batches_tracked"]) == 4
    (norm,) = [graph.operator(node) for node in graph if isinstance(graph.operator(node), BatchNorm)]
    assert norm.effects & Effect.UPDATES_BUFFER


def test_a_shared_batch_norm_in_training_mode_updates_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.norm(x) * 2 + 1)

    round_trip(Twice().train(), (torch.randn(5, 3),), again=[(torch.randn(5, 3),)])


def test_dropout_in_training_mode_draws_the_same_numbers() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.2)).train()
    graph, _ = round_trip(module, (torch.randn(4, 8),))
    assert sum(bool(graph.operator(node).effects & Effect.RANDOM) for node in graph) == 2


@pytest.mark.parametrize("batch_norm", [False, True])
def test_training_keeps_no_grad_regions_without_gradients(batch_norm: bool) -> None:
    class Region(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm: nn.Module = nn.BatchNorm1d(4) if batch_norm else nn.Identity()
            self.outside, self.inside = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(self.outside(x))
            with torch.no_grad():
                z = self.inside(y)
            return y + z

    module = Region().train()
    emitted = to_module(capture(module, (torch.randn(3, 4),)))
    x = torch.randn(3, 4)
    gradients = []
    for each in (module, emitted):
        torch.autograd.backward((each(x) ** 2).sum())
        gradients.append({name: parameter.grad for name, parameter in each.named_parameters()})
        for parameter in each.parameters():
            parameter.grad = None
    assert gradients[0]["inside.weight"] is None and gradients[1]["inside.weight"] is None
    assert_same(gradients[0], gradients[1])


def branch_on_data(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return -x


def test_what_export_refuses_is_told_in_one_sentence_with_the_line() -> None:
    with pytest.raises(CaptureError) as refusal:
        capture(Lambda(branch_on_data).eval(), (torch.randn(3),))
    message = str(refusal.value)
    assert "\n" not in message and message.startswith("Lambda: torch.export refuses it: ")
    assert "test_capture.py" in message and "if x.sum() > 0:" in message


def test_sizes_that_depend_on_data_are_refused_with_the_line() -> None:
    with pytest.raises(CaptureError, match="depends on the data") as refusal:
        capture(Lambda(lambda x: torch.nonzero(x) * 2).eval(), (torch.randn(3),))
    assert "\n" not in str(refusal.value)


def test_control_flow_is_refused() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.raises(CaptureError, match="control flow") as refusal:
        capture(Lambda(forward).eval(), (torch.randn(3),))
    assert "\n" not in str(refusal.value)


@torch.library.custom_op("rewright_tests::halve", mutates_args=())
def halve(x: Tensor, times: int, labels: list[int]) -> tuple[Tensor, Tensor]:
    return x / 2**times, x * labels[0]


@halve.register_fake
def _(x: Tensor, times: int, labels: list[int]) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def test_an_operator_that_nobody_defined_round_trips() -> None:
    graph, emitted = round_trip(Lambda(lambda x: halve(torch.relu(x), 3, [5, 6])[1] + 1).eval(), (torch.randn(4),))
    (operator,) = [graph.operator(node) for node in graph if isinstance(graph.operator(node), Opaque)]
    assert operator.target == "rewright_tests.halve.default" and operator.arguments[1:] == (3, (5, 6))
    assert operator.effects == Effect.UNKNOWN
    assert torch.ops.rewright_tests.halve.default in {node.target for node in emitted.graph.nodes}


LOSSES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "mse_loss": F.mse_loss,
    "mse_loss of a column": lambda x, y: F.mse_loss(x, y[:, :1].expand_as(x)) + (x * torch.broadcast_tensors(x, y[:, :1])[1]).sum(),
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_captured_as_operators(name: str) -> None:
    x, y = torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.randn(2, 3, dtype=torch.float64)
    graph, _ = round_trip(Lambda(LOSSES[name]), (x, y))
    assert count(graph, Opaque) == 0


def test_opaque_nodes_with_several_outputs_lists_and_words() -> None:
    def forward(x: Tensor) -> Any:
        values, places = torch.sort(x, descending=True)
        return (
            values,
            torch.special.erfcx(x),
            torch.stack(torch.unbind(x)),
            torch.histc(x, 3),
            torch.empty_like(x, dtype=torch.int32) * 0,
            places,
        )

    round_trip(Lambda(forward).eval(), (torch.randn(4),))


def test_guards_and_assertions_are_no_operators() -> None:
    def forward(x: Tensor, y: Tensor) -> Tensor:
        torch._assert(x.dim() == 2, "two axes")
        torch._check(x.shape[0] == y.shape[0])
        return x.to(torch.float64) + y

    graph = capture(Lambda(forward).eval(), (torch.ones(3, 2), torch.ones(3, 2)), (({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),))
    names = [type(graph.operator(node)).__name__ for node in graph if not isinstance(graph.operator(node), Input)]
    assert names == ["Cast", "Add"]
