"""rewright proves or refutes tensor-graph rewrite rules, and searches a model's graph with the rules that hold.

`verify(rule)`, `verify_pair(pattern, replacement, example_inputs)`, `optimize(module, example_inputs)`. Importing this package is
cheap: torch, z3 and hypothesis load when a function first needs them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from rewright.installation import check_siblings

if TYPE_CHECKING:
    from rewright.comparison import compare
    from rewright.onnx_optimization import optimize_onnx
    from rewright.optimization import Result, optimize
    from rewright.verification import verify_pair
    from rewrites.rule import Equality, Requires, Rule
    from verifier.equivalence.result import Comparison
    from verifier.verdict import Verdict
    from verifier.verify import verify

_shadowed: ImportError | None = None
try:
    check_siblings()
except ImportError as error:
    if "_pytest" not in sys.modules:
        raise
    _shadowed = error  # pytest loads the plugin wherever rewright is installed: tests that do not use it must run all the same

__version__ = "0.1.0"

_HOMES = {
    "Comparison": "verifier.equivalence.result",
    "Equality": "rewrites.rule",
    "Requires": "rewrites.rule",
    "Result": "rewright.optimization",
    "Rule": "rewrites.rule",
    "Verdict": "verifier.verdict",
    "compare": "rewright.comparison",
    "optimize": "rewright.optimization",
    "optimize_onnx": "rewright.onnx_optimization",
    "verify": "verifier.verify",
    "verify_pair": "rewright.verification",
}

__all__ = [
    "Comparison",
    "Equality",
    "Requires",
    "Result",
    "Rule",
    "Verdict",
    "__version__",
    "compare",
    "optimize",
    "optimize_onnx",
    "verify",
    "verify_pair",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _shadowed is not None:
        raise _shadowed
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
