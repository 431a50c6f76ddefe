"""The order of nodes in a file, on which a runtime's choice of fusions depends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from graphs.onnx.subgraphs import captured_names


def in_old_order(nodes: Sequence[onnx.NodeProto], numbers: Mapping[int, int]) -> list[onnx.NodeProto]:
    """The nodes in the order of the original model, each new one right after what it reads.

    `numbers` has the number in the original of the nodes that come from there, by `id`.
    """
    places: dict[str, int] = {}
    keys = []
    for node in nodes:
        place = numbers.get(id(node))
        if place is None:
            place = max((places.get(name, -1) for name in (*node.input, *captured_names(node))), default=-1)
        places.update(dict.fromkeys(node.output, place))
        keys.append(place)
    return [nodes[position] for position in sorted(range(len(keys)), key=keys.__getitem__)]
