"""docs/operators.md is what the declarations say."""

from __future__ import annotations

from pathlib import Path

from operators.document import document
from operators.operator import OPERATORS

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "write it anew with: python -m operators.document"


def test_every_operator_says_what_it_is() -> None:
    for name, declared in OPERATORS.items():
        doc = (declared.__doc__ or "").strip()
        assert doc and not doc.startswith(f"{name}("), f"{name} has no docstring"
        assert doc.split("\n")[0].rstrip().endswith((".", ":")), f"{name}: the first line is one sentence, got {doc.splitlines()[0]}"
