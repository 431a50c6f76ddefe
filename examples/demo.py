"""The demo: verify three rules, optimise the two-branch residual block, then fold and measure a ResNet-50. Run by `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from models.residual import TwoBranchBlock, randomise_statistics
from rich.console import Console

import rewright
from costs.timing import interleaved
from rewright.tables import step_table, verdict_table
from rewright.verification import Request, entry_of, verdict_of
from rewrites.library.convolution import EnlargeKernels, FoldBatchNormIntoConvolution
from rewrites.library.convolution_merging import AddConvolutionsOfOneInput

NEEDED = [FoldBatchNormIntoConvolution, EnlargeKernels, AddConvolutionsOfOneInput]
BOUND = 1e-10
"""The most that an optimised model may differ from the original in float64."""


def main() -> None:
    console = Console(width=150, highlight=False)
    verify_rules(console)
    for objective in ("time", "flops"):
        optimise_block(console, objective)
    fold_resnet(console)


def verify_rules(console: Console) -> None:
    """Verify the rules that the block needs, whatever the store holds."""
    console.rule("1. Three rules, for every shape")
    entries = [entry_of(rule, verdict_of(rule, Request())) for rule in NEEDED]
    console.print(verdict_table(entries))
    for entry in entries:
        assert not entry.problem(), entry.text


def optimise_block(console: Console, objective: str) -> None:
    """relu(bn(conv3x3(x)) + bn(conv1x1(x))) becomes relu(conv3x3(x)), over a step that costs more arithmetic."""
    console.rule(f"2. The two-branch residual block, by {objective}")
    torch.manual_seed(0)
    block = randomise_statistics(TwoBranchBlock(64)).to(torch.bfloat16).eval()
    images = torch.randn(32, 64, 56, 56, dtype=torch.bfloat16)
    result = rewright.optimize(block, (images,), objective=objective, kernels="none", device="h100")
    console.print(step_table(result))
    gain = result.before.time / result.after.time
    console.print(
        f"{result.before.kernels} kernels -> {result.after.kernels}, {gain:.2f}x by the roofline of {result.device}, "
        f"largest error in float64 {result.max_error['float64']:.1e}\n"
    )
    assert result.after.kernels == 2, result.graph
    assert f"{gain:.2f}" == "3.16", gain
    assert any(step.regression for step in result.steps), result.steps
    assert result.max_error["float64"] <= BOUND, result.max_error


def fold_resnet(console: Console) -> None:
    """All 53 batch norms of a ResNet-50 go into its convolutions; both models are timed in eager mode."""
    from transformers import ResNetConfig, ResNetModel

    console.rule("3. ResNet-50, measured on this machine")
    torch.manual_seed(0)
    model = randomise_statistics(ResNetModel(ResNetConfig())).eval()
    images = torch.randn(2, 3, 224, 224)
    result = rewright.optimize(model, (images,), rules=[FoldBatchNormIntoConvolution], kernels="none", device="cpu", time_here=False)
    folded = [step for step in result.steps if step.rule == FoldBatchNormIntoConvolution.__name__]
    with torch.no_grad():
        expected, found = model(images).last_hidden_state, result.module(images).last_hidden_state
        timings = interleaved([lambda: model(images), lambda: result.module(images)], seconds=0.0, fewest=REPEATS)
    before, after = (timing.median for timing in timings)
    error = float((expected - found).abs().max() / expected.abs().max())
    console.print(f"{len(folded)} batch norms folded in {result.seconds:.1f} s, capture and check included")
    console.print(f"kernels {result.before.kernels} -> {result.after.kernels} (one per operator)")
    console.print(
        f"eager time, median of {REPEATS} interleaved runs with {torch.get_num_threads()} threads: "
        f"{before * 1e3:.1f} ms -> {after * 1e3:.1f} ms, {before / after:.2f}x"
    )
    console.print(f"largest error {error:.1e} in float32, {result.max_error['float64']:.1e} in float64, relative to the largest output")
    assert len(folded) == 53, len(folded)
    assert result.max_error["float64"] <= BOUND, result.max_error


REPEATS = 9


if __name__ == "__main__":
    main()
