"""Rules that other tools ship, verified: `python -m benchmarks.peer_rules [NAME...] [--examples N] [--timeout S] [--write]`.

Every rule of onnxscript.rewriter.rules.common, and the attention patterns of torch.compile (torch/_inductor/fx_passes/fuse_attention.py)
that draw no random numbers. A row for each: verdict, seconds, and what was shown or what refutes it. `--write` keeps the rows in
benchmarks/results/peer_rules.json, and prints all that are kept there into peer_rules.md.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.tables import RESULTS, machine, table, write
from rewrites.pairs import rule_from_pair
from rewrites.rule import Change, Equality, Requires, Rule
from rewrites.signature import RuleDefinitionError

HEADS = ("rule", "of", "verdict", "seconds", "shown, or what refutes it")
CHANGES = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO, Change.OVERFLOW)
"""What a fused attention may change besides rounding: it divides and masks in another order."""


def onnxscript_rules() -> dict[str, type[Rule]]:
    """The rules of onnxscript.rewriter.rules.common by name."""
    from onnxscript.rewriter.rules import common

    from rewrites.onnx_rules import onnx_rules_of

    return dict(onnx_rules_of({name: getattr(common, name) for name in common.__all__}))


def _examples() -> dict[str, Callable[[], Any]]:
    def heads() -> torch.Tensor:
        return torch.empty((2, 4, 8, 16))

    scalar = {name: lambda: 2.0 for name in ("inv_scale", "scale_factor", "inv_scale_factor")}
    return {"query": heads, "key": heads, "value": heads, **scalar}


MASKS = {5: (2, 4, 8, 8), 14: (2, 8, 4, 4), 21: (2, 8, 4, 4), 22: (2, 8, 4, 4), 29: (2, 8, 4, 4)}
"""The shapes of the masks that the patterns add."""
HALF = (8, 10)
"""Patterns of float16 alone: a pair is generalised to every floating dtype, where they say nothing."""


def inductor_rules() -> Iterator[tuple[str, type[Rule] | str]]:
    """torch.compile's attention patterns by name; why one is none of ours where it is not."""
    from torch._inductor.fx_passes import fuse_attention

    for number in range(1, 30):
        pattern = getattr(fuse_attention, f"_sfdp_pattern_{number}", None)
        if pattern is None or number in HALF:
            continue
        examples = _examples()
        if number in MASKS:
            examples["attn_mask"] = partial(torch.empty, MASKS[number])
        names = list(inspect.signature(pattern).parameters)
        if not set(names) <= set(examples):
            continue
        replacement = getattr(fuse_attention, f"_sfdp_replacement_{number}")
        try:
            rule = rule_from_pair(pattern, replacement, [examples[name]() for name in names], f"sfdp_{number}")
        except RuleDefinitionError as error:
            yield f"sfdp_{number}", str(error)
            continue
        rule.equality = CHANGES
        if "inv_scale" in names:
            rule.requires = [Requires("the divisor is not zero", lambda inv_scale: inv_scale != 0)]
        yield f"sfdp_{number}", rule


def rows(wanted: list[str], examples: int, timeout: float) -> Iterator[dict[str, Any]]:
    """A row for each rule asked for, as it comes."""
    from verifier.verify import verify

    found: list[tuple[str, str, type[Rule] | str]] = [(name, "onnxscript", rule) for name, rule in onnxscript_rules().items()]
    found += [(name, "torch.compile", rule) for name, rule in inductor_rules()]
    for name, owner, rule in found:
        if wanted and name not in wanted:
            continue
        begin = time.monotonic()
        if isinstance(rule, str):
            status, shown = "(no rule)", rule
        else:
            verdict = verify(rule, examples=examples, timeout=timeout)
            status = verdict.status.value
            shown = "; ".join(part for part in (verdict.scope, "" if status == "PROVED" else verdict.reason) if part)
        yield {"rule": name, "of": owner, "verdict": status, "seconds": round(time.monotonic() - begin, 1), "shown": shown[:260]}


def _keep(found: dict[str, Any]) -> None:
    """Put the row in the place of the one of the same name, and print all."""
    file = RESULTS / "peer_rules.json"
    kept = {row["rule"]: row for row in (json.loads(file.read_text()) if file.is_file() else [])}
    kept[found["rule"]] = found
    every = sorted(kept.values(), key=lambda row: (row["of"], row["rule"]))
    file.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n")
    cells = [[str(value).replace("|", "\\|") for value in row.values()] for row in every]
    counts = {status: sum(row["verdict"] == status for row in every) for status in dict.fromkeys(row["verdict"] for row in every)}
    summary = f"{len(every)} rules: " + ", ".join(f"{count} {status}" for status, count in counts.items())
    write(
        "peer_rules.md", "Rules that other tools ship", f"`python -m benchmarks.peer_rules --write`\n\n{summary}\n\n{table(HEADS, cells)}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--examples", type=int, default=12)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for row in rows(given.names, given.examples, given.timeout):
        found.append(row)
        print(" | ".join(map(str, row.values())), file=sys.stderr, flush=True)
        if given.write:
            _keep(row)
    print(machine())
    print(table(HEADS, [list(row.values()) for row in found]))


if __name__ == "__main__":
    main()
