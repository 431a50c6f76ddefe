"""What the search makes small: one figure of the cost, or a weighted mix of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from costs.roofline import Cost

FIGURES = ("time", "flops", "bytes", "memory", "kernels")
MEASURED = "measured"
"""The name of the objective that is `time`, each kernel's measured on this machine."""
TIE = 1e-6
"""How much the other figures weigh, so that of two graphs equal in the objective the one better elsewhere is preferred."""


class UnknownObjectiveError(ValueError):
    """An objective that is neither a figure nor a mix of figures; the message lists the figures."""


@dataclass(frozen=True)
class Objective:
    """The sum over figures of weight · figure / figure of the graph at the start; smaller is better.

    A single figure is a mix of one. Figures that the mix leaves out break ties, kernels and bytes first.
    `measured` stands for `time` where each kernel's is measured (see costs.measured).
    """

    weights: tuple[tuple[str, float], ...]
    measured: bool = False

    @staticmethod
    def of(name: str | Mapping[str, float] | Objective) -> Objective:
        """The objective of this name or mix; as text, `time=1,memory=0.2` is a mix.

        Raises: UnknownObjectiveError.
        """
        if isinstance(name, Objective):
            return name
        if isinstance(name, str):
            weights = {}
            for part in name.split(","):
                figure, _, weight = part.partition("=")
                try:
                    weights[figure.strip()] = float(weight or 1)
                except ValueError as error:
                    raise UnknownObjectiveError(f"objective: the weight of {figure} must be a number, got {weight}") from error
        else:
            weights = dict(name)
        measured = MEASURED in weights
        if measured:
            weights["time"] = weights.get("time", 0.0) + weights.pop(MEASURED)
        unknown = [figure for figure in weights if figure not in FIGURES]
        if unknown or not weights:
            names = ", ".join((*FIGURES, MEASURED))
            raise UnknownObjectiveError(f"objective: must be among {names} (or a mix such as time=1,memory=0.2), got {name}")
        return Objective(tuple(sorted(weights.items())), measured)

    @property
    def needs_memory(self) -> bool:
        """Peak memory is part of the objective."""
        return any(figure == "memory" for figure, _ in self.weights)

    def value(self, start: Cost) -> Callable[[Cost], float]:
        """The function from a cost to its value, with the graph at the start as 1."""
        total = sum(weight for _, weight in self.weights)
        named = {figure for figure, _ in self.weights}
        factors = [(figure, weight / total / (getattr(start, figure) or 1.0)) for figure, weight in self.weights]
        ties = [(f, TIE / (getattr(start, f) or 1.0)) for f in ("time", "kernels", "bytes", "flops") if f not in named]
        factors += ties

        def value(cost: Cost) -> float:
            return float(sum(factor * getattr(cost, figure) for figure, factor in factors))

        return value

    def __str__(self) -> str:
        named = [(MEASURED if self.measured and figure == "time" else figure, weight) for figure, weight in self.weights]
        return named[0][0] if len(named) == 1 else ", ".join(f"{figure}={weight:g}" for figure, weight in named)
