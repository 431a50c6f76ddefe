"""A proof for people: both sides' normal forms in readable mathematics and the index maps between them, as text or Markdown."""

from __future__ import annotations

from verifier.proof.prove import NormalForms, Proof
from verifier.proof.readable import value_text


def explain(proof: Proof, markdown: bool = False) -> str:
    """Status, scope, both normal forms of every output and the index maps; with `markdown`, as Markdown. The same for the same proof."""
    lines = [f"{'**' if markdown else ''}{proof.status}{'**' if markdown else ''}: {', '.join(proof.scope)}"]
    if proof.reason:
        lines.append(f"reason: {proof.reason}")
    for number, form in enumerate(proof.forms):
        lines += _form_lines(number, form, markdown)
    if proof.unmatched:
        mark = "- " if markdown else "  "
        lines += ["", "smallest terms that nothing cancels:", *(f"{mark}{_code(text, markdown)}" for text in proof.unmatched)]
    return "\n".join(lines)


def _form_lines(number: int, form: NormalForms, markdown: bool) -> list[str]:
    ranges = ", ".join(f"0 ≤ {index} < {extent}" for index, extent in form.digits.items())
    title = f"output {number} at [{', '.join(form.index)}]" + (f" with {ranges}" if ranges else "")
    mark = "- " if markdown else "  "
    lines = ["", f"### {title}" if markdown else title]
    lines.append(f"{mark}pattern     = {_code(value_text(form.left), markdown)}")
    lines.append(f"{mark}replacement = {_code(value_text(form.right), markdown)}")
    lines += [f"{mark}index map: {_code(text, markdown)}" for text in form.maps]
    return lines


def _code(text: str, markdown: bool) -> str:
    return f"`{text}`" if markdown else text


__all__ = ["explain"]
