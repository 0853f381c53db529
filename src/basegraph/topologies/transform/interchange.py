"""One's own graphs, from networkx."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from basegraph.errors import InvalidArgument
from basegraph.topologies.core.rational import rational
from basegraph.topologies.core.round import Round
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.verify.rounds import check_rounds

if TYPE_CHECKING:
    import networkx

    AnyGraph = networkx.Graph[Any] | networkx.DiGraph[Any]


def from_networkx(
    graph: AnyGraph | Iterable[AnyGraph], weights: str = "metropolis", spec: str = "custom"
) -> Sequence:
    """A user's graph as a topology; several graphs on the same nodes become one period.

    `weights="metropolis"` gives the edge {i, j} the weight 1 / (1 + max(degree i, degree j)), which
    makes any undirected graph's W symmetric and doubly stochastic. Any other value names an edge
    attribute that holds the weights, as integers, fractions or decimal text (0.1 is taken as 1/10),
    in a graph or a directed graph (edge j → i: node i hears j).

    Nodes 0..n-1 keep their numbers; otherwise they are numbered in the graph's own order. Self
    loops are passed over: the self weight is what remains to 1. The graph (of several: their
    union) must be connected and W doubly stochastic.

    Args:
        graph: A networkx graph, or several on the same nodes, one per round.
        weights: "metropolis", or the edge attribute that holds the weights.
        spec: What the topology is called.

    Returns:
        One round per graph, as one period.

    Raises:
        InvalidArgument: If the graphs do not fit together, are not connected, or a weight is not
            accepted.
        InvalidRound: If W is not doubly stochastic.

    Example:
        >>> import networkx as nx
        >>> from_networkx(nx.star_graph(3)).round(0).neighbors(0)
        {1: Fraction(1, 4), 2: Fraction(1, 4), 3: Fraction(1, 4)}

    """
    import networkx

    graphs = [graph] if isinstance(graph, networkx.Graph) else list(graph)
    if not graphs or not all(isinstance(g, networkx.Graph) for g in graphs):
        raise InvalidArgument("graph", graph, "must be a networkx graph, or several")
    labels = list(graphs[0])
    if set(labels) == set(range(len(labels))):
        labels.sort()
    if not labels:
        raise InvalidArgument("graph", str(graphs[0]), "must have at least one node")
    if any(set(g) != set(labels) for g in graphs):
        raise InvalidArgument("graph", [str(g) for g in graphs], "must all have the same nodes")
    number = {label: i for i, label in enumerate(labels)}
    union: networkx.Graph[Any] = networkx.Graph()
    union.add_nodes_from(labels)
    union.add_edges_from(edge for g in graphs for edge in g.edges())
    if not networkx.is_connected(union):
        pieces = networkx.number_connected_components(union)
        raise InvalidArgument("graph", str(union), f"must be connected; it has {pieces} components")
    sequence = Sequence([_round(g, number, weights) for g in graphs], spec)
    check_rounds(sequence)
    return sequence


def _round(graph: Any, number: dict[Any, int], weights: str) -> Round:
    if graph.is_multigraph():
        raise InvalidArgument("graph", str(graph), "must not be a multigraph")
    if weights == "metropolis" and graph.is_directed():
        raise InvalidArgument("weights", weights, "needs an undirected graph")
    degree = {i: sum(j != i for j in graph[i]) for i in graph}
    arcs = {}
    for j, i, attributes in graph.edges(data=True):
        if i == j:
            continue
        if weights == "metropolis":
            weight = Fraction(1, 1 + max(degree[i], degree[j]))
        else:
            weight = _attribute(attributes, weights, (j, i))
        arcs[number[i], number[j]] = weight
        if not graph.is_directed():
            arcs[number[j], number[i]] = weight
    return Round.from_arcs(len(number), arcs)


def _attribute(attributes: dict[str, Any], name: str, edge: tuple[Any, Any]) -> Fraction:
    if name not in attributes:
        raise InvalidArgument("weights", name, f"the edge {edge} has no such attribute")
    accepted = f"the weight of edge {edge} must be a number in (0, 1]"
    return rational(name, attributes[name], accepted)
