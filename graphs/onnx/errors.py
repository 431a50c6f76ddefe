"""What is said of an ONNX file that cannot be read or written."""

from __future__ import annotations

MOST_ELEMENTS = 1 << 31
"""More elements than that in one tensor are a mistake or an attack."""


class OnnxError(ValueError):
    """An ONNX model that is broken or that cannot be written; the message says which part of it, and why."""


def shortened(text: object, most: int = 200) -> str:
    """The text as one line of bounded length that a terminal can show."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    return line if len(line) <= most else line[: most - 1] + "…"
