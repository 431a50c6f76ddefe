"""Which rules of the library fire in which models, and how often: `python -m benchmarks.firing [MODEL...]`.

Writes benchmarks/results/firing.md: a row per rule that fires in some model, a column per model, and the rules that fire in none of
them (each fires on its motivating graph, which tests/rewrites/test_library.py checks).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch

from examples.models import MODELS
from graphs.capture import capture
from rewrites import find_all
from rewrites.library import family, library

RESULTS = Path(__file__).parent / "results" / "firing.md"


def counts(name: str) -> Counter[str]:
    """How often each rule fires in a model as it is captured."""
    module, inputs = MODELS[name]()
    graph = capture(module, inputs)
    return Counter(match.rule.__name__ for match in find_all(library(), graph))


def table(found: dict[str, Counter[str]]) -> str:
    """The Markdown table of the counts by model."""
    rules = library()
    total = Counter(name for counted in found.values() for name in counted.elements())
    lines = ["# Which rules fire in which models", "", "| rule | family | " + " | ".join(found) + " |", "|---|---|" + "---|" * len(found)]
    for rule in rules:
        if total[rule.__name__]:
            cells = [str(counted[rule.__name__] or "") for counted in found.values()]
            lines.append(f"| `{rule.__name__}` | {family(rule)} | " + " | ".join(cells) + " |")
    rest = [f"`{rule.__name__}`" for rule in rules if not total[rule.__name__]]
    lines += [
        "",
        f"## In none of these models: {len(rest)} of {len(rules)}",
        "",
        "They fire on their motivating graphs.",
        "",
        ", ".join(rest) + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    torch.set_num_threads(1)
    found = {}
    for name in sys.argv[1:] or list(MODELS):
        found[name] = counts(name)
        print(f"{name}: {sum(found[name].values())} matches of {len(found[name])} rules", flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
