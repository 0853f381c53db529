"""The paper's Alg. 1-3 line by line, with sets and loops: slow, and independent of the library.

Rounds are dictionaries {(i, j): (weight, line)} with i < j. Nodes are any list of labels. "Select
isolated nodes" takes the first ones, or the last ones as the published program does.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

Edges = dict[tuple[int, int], tuple[Fraction, str]]


def factorisations(n: int, largest: int, smallest: int = 2):
    """Every way to write n as an ascending product of factors in smallest..largest."""
    if n == 1:
        yield ()
    for f in range(smallest, min(n, largest) + 1):
        if n % f == 0:
            for rest in factorisations(n // f, largest, f):
                yield (f, *rest)


def is_smooth(n: int, largest: int) -> bool:
    return any(True for _ in factorisations(n, largest))


def hyper_hypercube(nodes: list[int], k: int, line: str) -> list[Edges]:
    n = len(nodes)
    if n == 1:
        return [{}]
    factors = min(factorisations(n, k + 1), key=lambda f: (len(f), sum(f), f))
    rounds = []
    stride = 1
    for size in factors:
        edges: Edges = {}
        b = [0] * n
        for i in range(n):
            for m in range(1, size + 1):
                j = (i + m * stride) % n
                if b[i] < size - 1 and b[j] < size - 1 and i != j:
                    pair = tuple(sorted((nodes[i], nodes[j])))
                    if pair not in edges:
                        edges[pair] = (Fraction(1, size), line)
                        b[i] += 1
                        b[j] += 1
        rounds.append(edges)
        stride *= size
    return rounds


def simple_base(nodes: list[int], k: int, selected: str = "first") -> list[Edges]:
    n, base = len(nodes), k + 1
    if is_smooth(n, base):
        return hyper_hypercube(nodes, k, "Alg. 1 line 9")
    powers = [(n // base**p % base, p) for p in range(n.bit_length(), -1, -1)]
    powers = [(a, p) for a, p in powers if a]
    big: list[list[int]] = []
    small: list[list[list[int]]] = []
    rest = list(nodes)
    for a, p in powers:
        big.append(rest[: a * base**p])
        small.append([big[-1][c * base**p : (c + 1) * base**p] for c in range(a)])
        rest = rest[a * base**p :]
    parts = len(powers)
    inside = [hyper_hypercube(v, k, "Alg. 2 line 11") for v in big]
    again = [[hyper_hypercube(v, k, "Alg. 2 line 25") for v in blocks] for blocks in small]
    last = [hyper_hypercube(v, k, "Alg. 2 line 27") for v in big]
    m1 = len(inside[0])
    b = [0] * parts
    rounds: list[Edges] = []
    m = 0
    while b[0] < len(again[0][0]):
        m += 1
        edges: Edges = {}
        busy: set[int] = set()
        for part in range(parts, 0, -1):  # the paper's l
            index = part - 1
            if m <= m1:
                edges |= inside[index][(m - 1) % len(inside[index])]
            elif m < m1 + part:
                target = m - m1 - 1
                weight = Fraction(
                    len(big[target]), powers[target][0] * sum(len(v) for v in big[target:])
                )
                for v in big[index]:
                    for block in small[target]:
                        order = block if selected == "first" else block[::-1]
                        u = next(w for w in order if w not in busy)
                        busy.add(u)
                        edges[tuple(sorted((u, v)))] = (weight, "Alg. 2 line 15")
            elif m == m1 + part and part != parts:
                isolated = [w for w in big[index] if w not in busy]
                while len(isolated) >= 2:
                    chosen, isolated = isolated[: k + 1], isolated[k + 1 :]
                    for pair in combinations(chosen, 2):
                        edges[pair] = (Fraction(1, len(chosen)), "Alg. 2 line 20")
            else:
                b[index] += 1
                if powers[index][1] != 0:
                    for sequence in again[index]:
                        edges |= sequence[(b[index] - 1) % len(sequence)]
                else:
                    edges |= last[index][(b[index] - 1) % len(last[index])]
        rounds.append(edges)
    return rounds


def base(nodes: list[int], k: int, selected: str = "first") -> list[Edges]:
    n = len(nodes)
    p = max(d for d in range(1, n + 1) if n % d == 0 and is_smooth(d, k + 1))
    q = n // p
    plain = simple_base(nodes, k, selected)
    if p == 1 or q == 1:
        return plain
    groups = [nodes[c * q : (c + 1) * q] for c in range(p)]
    rounds: list[Edges] = []
    for simultaneous in zip(*(simple_base(v, k, selected) for v in groups), strict=True):
        rounds.append({pair: edge for edges in simultaneous for pair, edge in edges.items()})
    across = [hyper_hypercube([v[c] for v in groups], k, "Alg. 3 line 10") for c in range(q)]
    for simultaneous in zip(*across, strict=True):
        rounds.append({pair: edge for edges in simultaneous for pair, edge in edges.items()})
    return plain if len(plain) < len(rounds) else rounds
