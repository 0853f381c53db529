"""The catalogue: every topology by name, the one registry.

To add a topology, write its builder in a file of its own and add one line to `_BUILDERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from basegraph.errors import InvalidArgument
from basegraph.specs import Entry, catalog, parse, refuse_twice, split_specs
from basegraph.topologies.baselines._exponential import (
    exponential,
    one_peer_exponential,
    one_peer_hypercube,
)
from basegraph.topologies.baselines.equitopo import (
    d_equistatic,
    one_peer_d_equidyn,
    one_peer_u_equidyn,
    u_equistatic,
)
from basegraph.topologies.baselines.static import complete, ring, torus
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.sequence import Sequence, Topology
from basegraph.topologies.paper._base import base
from basegraph.topologies.paper._hyper_hypercube import hyper_hypercube
from basegraph.topologies.paper._simple_base import simple_base
from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short._short import block_merge, block_mix, short
from basegraph.topologies.steady._steady import steady
from basegraph.topologies.transform._shuffled import shuffled
from basegraph.topologies.transform._stay_home import stay_home
from basegraph.topologies.two_states import TwoStateSequence, ceca

_BUILDERS: dict[str, Callable[..., Topology | TwoStateSequence]] = {
    "base": base,
    "simple-base": simple_base,
    "hyper-hypercube": hyper_hypercube,
    "short": short,
    "euclid": euclid,
    "steady": steady,
    "block-mix": block_mix,
    "block-merge": block_merge,
    "one-peer-hypercube": one_peer_hypercube,
    "one-peer-exponential": one_peer_exponential,
    "exponential": exponential,
    "ring": ring,
    "torus": torus,
    "complete": complete,
    "d-equistatic": d_equistatic,
    "u-equistatic": u_equistatic,
    "one-peer-d-equidyn": one_peer_d_equidyn,
    "one-peer-u-equidyn": one_peer_u_equidyn,
    "ceca": ceca,
}
TOPOLOGIES: Mapping[str, Entry[Topology | TwoStateSequence]] = catalog(_BUILDERS, arguments=("n",))
"""name -> builder: call it with n and the topology's options."""
TWO_STATE_NAMES = ("ceca",)
"""Those whose nodes keep two vectors: they are a `TwoStateSequence`, not a `Topology`."""
COMMON = ("home", "shuffled", "shuffle_seed")
"""Options that all topologies have: see `topology`."""


def topology(spec: str, n: int, **options: object) -> Sequence | Any:
    """The topology that a spec names, on n nodes.

    A spec is a catalogue name, with options behind a colon if wanted. Topologies that pair nodes
    also have the option `home`, which is `stay_home`; all sequences have `shuffled`, the steps
    after which their nodes are renamed, and `shuffle_seed`.

    Args:
        spec: `name` or `name:option=value,...`.
        n: Number of nodes.
        **options: Options of the topology, where the spec does not give them.

    Returns:
        A `Sequence`, or a `Topology` without a period where the name is that of a random one, or
        a `TwoStateSequence` (`ceca`): `| Any` lets type checkers accept all three.

    Raises:
        InvalidArgument: If there is no such topology or option, or a value is not accepted.

    Example:
        >>> topology("base:k=2", n=25)
        <base:k=2, 25 nodes, 6 rounds, degree 2>
        >>> topology("base", n=25, k=2)
        <base:k=2, 25 nodes, 6 rounds, degree 2>
        >>> topology("base:home=true", n=25)
        <base:k=1,home=true, 25 nodes, 9 rounds, degree 1>
        >>> topology("bas", n=25)
        Traceback (most recent call last):
            ...
        basegraph.errors.InvalidArgument: topology='bas': did you mean 'base'? Known: base, ...

    """
    name, written = parse_spec(spec)
    refuse_twice(spec, written, options)
    asked = {**written, **options}
    home = asked.pop("home", False)
    if not isinstance(home, bool):
        raise InvalidArgument("home", home, "must be true or false")
    steps, seed = asked.pop("shuffled", None), asked.pop("shuffle_seed", None)
    if steps is None and seed is not None:
        raise InvalidArgument("shuffle_seed", seed, "needs shuffled, a number of steps")
    built = TOPOLOGIES[name](n, **asked)
    built = stay_home(built) if home else built
    if steps is None:
        return built
    every = at_least(1, below=2**62, shuffled=steps)
    drawn_from = at_least(0, below=2**64, shuffle_seed=0 if seed is None else seed)
    return shuffled(built, every, drawn_from)


def parse_spec(spec: str) -> tuple[str, dict[str, object]]:
    """A spec as (catalogue name, options); unknown names and options are refused.

    Args:
        spec: `name` or `name:option=value,...`.

    Raises:
        InvalidArgument: If the name or an option is not known, or the options are malformed.

    Example:
        >>> parse_spec("base:k=2,redundant=false")
        ('base', {'k': 2, 'redundant': False})

    """
    return parse("topology", spec, TOPOLOGIES, common=COMMON)


def parse_specs(argument: str, text: str) -> list[str]:
    """Several specs, separated by commas; an option after a comma belongs to the spec before it.

    Args:
        argument: What the caller calls the text; refusals name it.
        text: The specs.

    Raises:
        InvalidArgument: If there is no spec, or one is malformed or not known.

    Example:
        >>> parse_specs("topologies", "base:k=1,ring,u-equistatic:degree=2,seed=3")
        ['base:k=1', 'ring', 'u-equistatic:degree=2,seed=3']

    """
    specs = split_specs(text)
    if not specs:
        raise InvalidArgument(argument, text, "must name at least one topology")
    for spec in specs:
        parse(argument, spec, TOPOLOGIES, common=COMMON)
    return specs
