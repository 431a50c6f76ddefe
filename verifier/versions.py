"""What judged a rule: versions of the libraries, and digests of this project's own code that decides verdicts."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_JUDGES = ("verifier", "verifier/onnx_rules", "verifier/proof", "graphs", "rewrites")
_NOT_JUDGING = {"store.py", "isolation.py"}
_GROUND = ("expressions.py", "formulas.py", "predicates.py", "meaning.py", "operator.py", "pointwise.py", "sources.py", "axes.py")


@cache
def versions() -> dict[str, str]:
    """Python, the libraries, and the digest of the code that judges rules."""
    found = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in ("rewright", "torch", "z3-solver", "hypothesis"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    found["judge"] = digest(path for folder in _JUDGES for path in sorted((_ROOT / folder).glob("*.py")) if path.name not in _NOT_JUDGING)
    found["meaning"] = digest(_ROOT / "operators" / name for name in _GROUND)
    return found


@cache
def operators_digest(module: str) -> str:
    """The digest of a module of operators, `operators.linear`."""
    return digest([_ROOT / Path(*module.split(".")).with_suffix(".py")])


def digest(paths: Iterable[Path]) -> str:
    """A short hash of the files' names and contents."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.name.encode())
        total.update(path.read_bytes() if path.exists() else b"")
    return total.hexdigest()[:16]


__all__ = ["digest", "operators_digest", "versions"]
