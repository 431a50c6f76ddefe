"""Graphs as SVG drawings: operators from top to bottom, weights named where they are read, repeated blocks drawn once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape
from pathlib import Path

from graphs.graph import Graph
from graphs.structure import operator_digest
from operators.foreign import Foreign
from operators.opaque import Opaque
from operators.operator import Operator
from operators.sources import Constant, Input, Scalar

LINE, PADDING, GAP_ACROSS, GAP_DOWN, CHARACTER = 14, 6, 24, 34, 6.6
LONGEST = 42


@dataclass
class Box:
    """One drawn node: its lines of text, its place, its successors."""

    lines: list[str]
    fill: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    into: list[int] = field(default_factory=list)

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * CHARACTER + 2 * PADDING if self.lines else 2.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING if self.lines else 0.0


@dataclass(frozen=True)
class Repeat:
    """A block of `length` operators from position `start` on in the order of drawing, standing `count` times in a row."""

    start: int
    length: int
    count: int


def draw(graph: Graph, path: str | Path | None = None, fold: bool = True) -> str:
    """The graph as an SVG document; written to `path` where given. With `fold`, a block that repeats is drawn once, with its count."""
    order = [node for node in graph.topological_order() if not isinstance(graph.operator(node), (Constant, Scalar))]
    repeats = find_repeats(graph, order) if fold else []
    drawing = _Drawing(graph, order, repeats)
    text = drawing.svg()
    if path is not None:
        beside = Path(f"{path}.{os.getpid()}")
        try:
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    return text


def find_repeats(graph: Graph, order: list[int]) -> list[Repeat]:
    """Blocks of operators that stand several times in a row with the same wiring, the longest stretches first, none overlapping."""
    position = {node: place for place, node in enumerate(order)}
    marks = [_mark(graph, node) for node in order]
    reads = [[position.get(operand.node) for operand in graph.operands(node) if operand is not None] for node in order]

    def alike(first: int, second: int) -> bool:
        if marks[first] != marks[second]:
            return False
        pairs = zip(reads[first], reads[second], strict=True)
        return all(a == b or (a is not None and b is not None and first - a == second - b) for a, b in pairs)

    candidates: list[Repeat] = []
    for length in range(4, len(order) // 2 + 1):
        start = 0
        while start + 2 * length <= len(order):
            same = 0
            while start + length + same < len(order) and alike(start + same, start + length + same):
                same += 1
            if same >= length:
                candidates.append(Repeat(start, length, same // length + 1))
            start += same + 1
    chosen: list[Repeat] = []
    taken = [False] * len(order)
    for repeat in sorted(candidates, key=lambda r: (-(r.length * (r.count - 1)), r.length, r.start)):
        span = range(repeat.start, repeat.start + repeat.length * repeat.count)
        if repeat.length * (repeat.count - 1) >= 4 and not any(taken[place] for place in span):
            chosen.append(repeat)
            for place in span:
                taken[place] = True
    return sorted(chosen, key=lambda repeat: repeat.start)


def _mark(graph: Graph, node: int) -> bytes:
    """The operator with its types and those of its operands; numbers among them by value."""
    state = blake2b(operator_digest(graph.operator(node)), digest_size=12)
    state.update(str(graph.types(node)).encode())
    for operand in graph.operands(node):
        if operand is None:
            state.update(b"-")
        elif isinstance(graph.operator(operand.node), Scalar):
            state.update(operator_digest(graph.operator(operand.node)))
        else:
            state.update(f"{operand.output}{graph.type(operand)}".encode())
    return state.digest()


class _Drawing:
    """Boxes in layers, and the lines between them."""

    def __init__(self, graph: Graph, order: list[int], repeats: list[Repeat]) -> None:
        self.graph = graph
        self.repeats = repeats
        self.stands_for: dict[int, int] = {}
        hidden: set[int] = set()
        for repeat in repeats:
            for place in range(repeat.start + repeat.length, repeat.start + repeat.length * repeat.count):
                self.stands_for[order[place]] = order[repeat.start + (place - repeat.start) % repeat.length]
                hidden.add(order[place])
        self.order = order
        self.boxes: dict[int, Box] = {node: self.box(node) for node in order if node not in hidden}
        for node in self.boxes:
            sources = {self.stands_for.get(operand.node, operand.node) for operand in graph.operands(node) if operand is not None}
            for source in sorted(sources):
                if source in self.boxes and source != node:
                    self.boxes[source].into.append(node)
        for index, value in enumerate(graph.outputs):
            box = Box([f"output {index}" if len(graph.outputs) > 1 else "output"], "#e8e8e8")
            source = self.stands_for.get(value.node, value.node)
            if source in self.boxes:
                self.boxes[-1 - index] = box
                self.boxes[source].into.append(-1 - index)

    def box(self, node: int) -> Box:
        operator = self.graph.operator(node)
        if isinstance(operator, Input):
            return Box([_short(operator.name), _short(str(operator.type))], "#dcecd8")
        lines = [_title(operator), *_attribute_lines(operator)]
        for operand in self.graph.operands(node):
            if operand is None:
                continue
            source = self.graph.operator(operand.node)
            if isinstance(source, Constant):
                lines.append(_short(f"{source.name} [{', '.join(map(str, source.type.shape))}]"))
            elif isinstance(source, Scalar):
                lines.append(_short(str(source.value)))
        lines.append(_short("→ " + ", ".join(map(str, self.graph.types(node)))))
        return Box(lines, _fill(operator))

    def layers(self) -> list[list[int]]:
        """Boxes by longest path from the top, ordered within a layer by where their predecessors stand.

        A repeated block has its layers to itself.
        """
        before: dict[int, list[int]] = {key: [] for key in self.boxes}
        for key, box in self.boxes.items():
            for user in box.into:
                before[user].append(key)
        ordered = [node for node in self.order if node in self.boxes] + [key for key in self.boxes if key < 0]
        starts = {self.order[repeat.start] for repeat in self.repeats}
        ends = {self.order[repeat.start + repeat.length - 1] for repeat in self.repeats}
        floor, deepest = 0, -1
        done: set[int] = set()
        for key in ordered:
            if key in starts:
                floor = deepest + 1
            ahead = [self.boxes[source].layer + 1 for source in before[key] if source in done]
            self.boxes[key].layer = max([floor, *ahead])
            deepest = max(deepest, self.boxes[key].layer)
            if key in ends:
                floor = deepest + 1
            done.add(key)
        rows: list[list[int]] = [[] for _ in range(1 + max((box.layer for box in self.boxes.values()), default=0))]
        for key in ordered:
            rows[self.boxes[key].layer].append(key)
        place: dict[int, float] = {}
        for row in rows:
            row.sort(key=lambda key: sum(place[s] for s in before[key] if s in place) / len([s for s in before[key] if s in place] or [1]))
            place.update({key: position - (len(row) - 1) / 2 for position, key in enumerate(row)})
        return rows

    def arrange(self) -> tuple[float, float]:
        """Give every box its place; width and height of the whole."""
        rows = self.layers()
        widths = [sum(self.boxes[key].width for key in row) + GAP_ACROSS * (len(row) - 1) for row in rows]
        width = max(widths, default=0.0) + 2 * GAP_ACROSS
        y = float(GAP_DOWN)
        for row, own in zip(rows, widths, strict=True):
            x = (width - own) / 2
            for key in row:
                box = self.boxes[key]
                box.x, box.y = x, y
                x += box.width + GAP_ACROSS
            y += max((self.boxes[key].height for key in row), default=0.0) + GAP_DOWN
        return width, y

    def svg(self) -> str:
        width, height = self.arrange()
        margin = 70.0
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2 * margin:.0f}" height="{height:.0f}" '
            f'viewBox="{-margin:.0f} 0 {width + 2 * margin:.0f} {height:.0f}" font-family="monospace" font-size="11">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
            '<rect x="-100%" width="300%" height="100%" fill="white"/>',
        ]
        parts += [self.frame(repeat) for repeat in self.repeats]
        for box in self.boxes.values():
            parts += [_line(box, self.boxes[user]) for user in box.into]
        parts += [_rectangle(box) for box in self.boxes.values()]
        return "\n".join([*parts, "</svg>"]) + "\n"

    def frame(self, repeat: Repeat) -> str:
        """What stands around a repeated block."""
        inside = [self.boxes[self.order[place]] for place in range(repeat.start, repeat.start + repeat.length)]
        left, right = min(box.x for box in inside) - 12, max(box.x + box.width for box in inside) + 12
        top, bottom = min(box.y for box in inside) - 12, max(box.y + box.height for box in inside) + 12
        middle = (top + bottom) / 2
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="8" fill="#f4f6fb" '
            f'stroke="#7a8cc0" stroke-dasharray="5 3"/>'
            f'<text x="{right + 6:.1f}" y="{middle:.1f}" font-size="15" font-weight="bold" fill="#40528c">× {repeat.count}</text>'
        )


def _title(operator: Operator) -> str:
    if isinstance(operator, Foreign):
        return _short(f"foreign {operator.name}")
    return _short(f"opaque {operator.target}") if isinstance(operator, Opaque) else type(operator).__name__


def _attribute_lines(operator: Operator) -> list[str]:
    if isinstance(operator, (Opaque, Foreign)):
        return []
    text = ", ".join(f"{name}={value}" for name, value in operator.attributes.items())
    return [_short(text)] if text else []


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _fill(operator: Operator) -> str:
    """The colour of an operator: heavy ones, pointwise ones, views, opaque ones, the rest."""
    if isinstance(operator, (Opaque, Foreign)):
        return "#f2d5d5"
    if operator.pointwise:
        return "#fff3cf"
    if operator.aliases:
        return "#f1f1f1"
    heavy = ("Conv", "MatMul", "Linear", "Einsum", "Attention")
    return "#cfe0f5" if type(operator).__name__.startswith(heavy) or type(operator).__name__.endswith(heavy) else "#e7dcf3"


def _line(source: Box, target: Box) -> str:
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    bend = (y2 - y1) / 2
    if target.layer - source.layer > 1:
        side = -1 if x2 <= x1 else 1
        aside = side * (max(source.width, target.width) / 2 + 14)
        path = f"M{x1:.1f},{y1:.1f} C{x1 + aside:.1f},{y1 + 20:.1f} {x2 + aside:.1f},{y2 - 20:.1f} {x2:.1f},{y2:.1f}"
    else:
        path = f"M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>'


def _rectangle(box: Box) -> str:
    parts = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4" fill="{box.fill}" stroke="#666"/>'
    ]
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        x, y = box.x + box.width / 2, box.y + PADDING + LINE * (number + 0.75)
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{weight}>{escape(line)}</text>')
    return "".join(parts)


__all__ = ["draw", "find_repeats"]
