"""What the subgraphs of a node (If, Loop, Scan) read from outside, and renaming that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every graph inside its nodes."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


def all_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node and every node inside it."""
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from all_nodes(inner)


def captured_names(node: onnx.NodeProto) -> list[str]:
    """The names that a node's subgraphs read from outside, each once, in the order of reading."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        found.update(dict.fromkeys(_free_names(graph)))
    return list(found)


def _free_names(graph: onnx.GraphProto) -> Iterator[str]:
    own = _own_names(graph)
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name and name not in own:
                yield name
    for output in graph.output:
        if output.name not in own:
            yield output.name


def _own_names(graph: onnx.GraphProto) -> set[str]:
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    return own | {name for node in graph.node for name in node.output}


def needed_nodes(graph: onnx.GraphProto) -> set[int]:
    """The numbers of the nodes that the graph's outputs depend on; nodes stand after what they read."""
    wanted = {output.name for output in graph.output}
    found = set()
    for number in reversed(range(len(graph.node))):
        node = graph.node[number]
        if wanted.intersection(node.output):
            found.add(number)
            wanted.update((*node.input, *captured_names(node)))
    return found


def rename_captured(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Let a node's subgraphs read other names from outside, in place."""
    for graph in subgraphs(node):
        own = _own_names(graph)
        outside = {old: new for old, new in names.items() if old not in own}
        for inner in graph.node:
            for position, name in enumerate(inner.input):
                inner.input[position] = outside.get(name, name)
            rename_captured(inner, outside)
        for output in graph.output:
            output.name = outside.get(output.name, output.name)
