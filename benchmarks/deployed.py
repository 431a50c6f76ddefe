"""What RepVGG can gain here: its deployed form, written by hand, in every layout and with every preparation of weights PyTorch has.

`python -m benchmarks.deployed [--threads 2] [--batches 1,8] [--write]`

The deployed form of a block is one 3x3 convolution with bias and one relu (Ding et al. 2021). All forms below compute it with the same
weights, merged in float64; they run in turn with the training form, and figures are medians, ratios medians over rounds with their range
at 95 %. With one thread, eager times are the thread's own; with more, those of the thread that calls, if `OMP_WAIT_POLICY=PASSIVE` is set
before the start. What a search makes of the training form is the deployed form at best (benchmarks.found), so that the best of these is
what can be gained here at all; `optimize` chooses among the first three.

contiguous: `torch.conv2d` and `torch.relu`   channels-last: the same in channels-last memory   packed: weights in the blocks that oneDNN
asks for, once (`torch.ops.mkldnn._reorder_convolution_weight`)   fused: these, and the relu in the convolution's kernel, where oneDNN
takes NaN to 0   blocks: weights and all that is computed in oneDNN's own layout (`Tensor.to_mkldnn`)   frozen: TorchInductor with
`freezing`, beside the training form compiled alike
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.batches import keep_memory, model_with
from benchmarks.tables import table, write
from costs.runtimes import Eager, fingerprint
from costs.timing import Comparison, interleaved
from examples.models.residual import RepVGG, RepVGGBlock

HEADS = ("batch", "form", "ms", "training form / this", "error")
Merged = tuple[Tensor, Tensor, int]
"""A block's kernels, its bias, and its stride."""


def _scaled(kernels: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The kernels and the bias of a convolution with its batch norm folded in."""
    assert norm.running_var is not None and norm.running_mean is not None
    scale = norm.weight.double() * torch.rsqrt(norm.running_var.double() + norm.eps)
    return kernels * scale[:, None, None, None], norm.bias.double() - norm.running_mean.double() * scale


def merged(block: RepVGGBlock) -> Merged:
    """The block's branches as one convolution: the 1x1 kernels and the identity stand in the middle of the 3x3 ones."""
    middle = (1, 1, 1, 1)
    branches = [_scaled(block.conv3.weight.double(), block.bn3)]
    branches.append(_scaled(nn.functional.pad(block.conv1.weight.double(), middle), block.bn1))
    if block.identity is not None:
        identity = torch.eye(block.conv3.in_channels, dtype=torch.float64)[:, :, None, None]
        branches.append(_scaled(nn.functional.pad(identity, middle), block.identity))
    kernels, bias = (torch.stack(parts).sum(0).float() for parts in zip(*branches, strict=True))
    return kernels, bias, block.conv3.stride[0]


class Deployed(nn.Module):
    """RepVGG's deployed form; with `last` in channels-last memory."""

    def __init__(self, blocks: list[Merged], classifier: nn.Linear, last: bool) -> None:
        super().__init__()
        self.format = torch.channels_last if last else torch.contiguous_format
        self.kernels = nn.ParameterList([kernels.contiguous(memory_format=self.format) for kernels, _, _ in blocks])
        self.biases = nn.ParameterList([bias for _, bias, _ in blocks])
        self.strides = [stride for _, _, stride in blocks]
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=self.format)
        for kernels, bias, stride in zip(self.kernels, self.biases, self.strides, strict=True):
            x = torch.relu(torch.conv2d(x, kernels, bias, stride, 1))
        return self.classifier(x.mean((2, 3)))  # type: ignore[no-any-return]


def packed(blocks: list[Merged], classifier: nn.Linear, x: Tensor, fused: bool) -> Callable[[Tensor], Tensor]:
    """The deployed form with kernels in oneDNN's blocks for images of these sizes, and where `fused` relu in those of convolutions."""
    layers = []
    for kernels, bias, stride in blocks:
        where: tuple[list[int], list[int], list[int]] = [1, 1], [stride, stride], [1, 1]
        blocked = torch.ops.mkldnn._reorder_convolution_weight(kernels, *where, 1, list(x.shape))
        layers.append(partial(_convolved, kernels=blocked, bias=bias, where=where, fused=fused))
        x = torch.conv2d(x, kernels, bias, stride, 1)

    def run(images: Tensor) -> Tensor:
        images = images.contiguous(memory_format=torch.channels_last)
        for layer in layers:
            images = layer(images)
        return classifier(images.mean((2, 3)))  # type: ignore[no-any-return]

    return run


def _convolved(images: Tensor, kernels: Tensor, bias: Tensor, where: tuple[list[int], list[int], list[int]], fused: bool) -> Tensor:
    convolve = torch.ops.mkldnn._convolution_pointwise.default
    result: Tensor = convolve(images, kernels, bias, *where, 1, "relu" if fused else "none", [], "")
    return result if fused else torch.relu(result)


def blocked(blocks: list[Merged], classifier: nn.Linear) -> Callable[[Tensor], Tensor]:
    """The deployed form with every tensor in oneDNN's own layout."""
    layers = [(kernels.to_mkldnn(), bias.to_mkldnn(), stride) for kernels, bias, stride in blocks]

    def run(images: Tensor) -> Tensor:
        images = images.to_mkldnn()
        for kernels, bias, stride in layers:
            images = torch.relu(torch.conv2d(images, kernels, bias, stride, 1))
        return classifier(images.to_dense().mean((2, 3)))  # type: ignore[no-any-return]

    return run


def rows(batch: int, seconds: float) -> list[tuple[object, ...]]:
    """Every form beside the training form it is compared with."""
    module, (images,) = model_with("repvgg", batch)
    assert isinstance(module, RepVGG)
    blocks = [merged(block) for block in module.stages if isinstance(block, RepVGGBlock)]
    eager: dict[str, Callable[..., Tensor]] = {
        "training": module,
        "contiguous": Deployed(blocks, module.classifier, False),
        "channels-last": Deployed(blocks, module.classifier, True),
        "packed": packed(blocks, module.classifier, images, False),
        "fused": packed(blocks, module.classifier, images, True),
        "blocks": blocked(blocks, module.classifier),
    }
    compiled: dict[str, Callable[..., Tensor]] = {
        "training, frozen": module,
        "frozen": eager["contiguous"],
        "channels-last, frozen": eager["channels-last"],
    }
    found: list[tuple[object, ...]] = []
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        right = module(images)
        frozen = {name: torch.compile(form, dynamic=False) for name, form in compiled.items()}
        for forms in (eager, frozen):
            errors = [float((form(images) - right).abs().max() / right.abs().max()) for form in forms.values()]
            clock = Eager().clock() if forms is eager else time.perf_counter
            timings = interleaved([partial(form, images) for form in forms.values()], seconds, fewest=7, most=41, clock=clock)
            for name, timing, error in zip(forms, timings, errors, strict=True):
                against = Comparison.of(timings[0], timing)
                ratio = f"{against.ratio:.2f} ({against.low:.2f} to {against.high:.2f})"
                found.append((batch, name, f"{timing.median * 1e3:.2f}", ratio, f"{error:.1e}"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--seconds", type=float, default=20.0, help="of timing for each batch, eager and frozen")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/deployed.md")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_memory()
    found = [row for batch in map(int, arguments.batches.split(",")) for row in rows(batch, arguments.seconds)]
    text = table(HEADS, found)
    print(text)
    if arguments.write:
        command = f"`python -m benchmarks.deployed --threads {arguments.threads} --write`; {fingerprint(Eager())}"
        write("deployed.md", "What RepVGG can gain", f"{__doc__}\n{command}\n\n{text}")


if __name__ == "__main__":
    main()
