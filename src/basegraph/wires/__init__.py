"""How vectors travel between nodes: in fewer bytes, with a stated error.

- `wire`: the wire that a spec such as `int8` or `topk:0.01` asks for; `WIRES`, all of them by name.
- `Wire`: what is sent, and how many bytes that takes; `Codec`: packs vectors into messages.
- `require_wire`: refuses a wire that does not go with a method or a topology.

The rules by which nodes mix what was sent keep the average over nodes, whatever is lost on the way:
a node moves by Σ w (q_j - q_i), where q_i is what its neighbors know of it, not what it is. See
docs/explanation/compression.md.

>>> from basegraph.wires import wire
>>> [wire(spec).message_bytes(1_000_000) for spec in ("float32", "int8", "topk:0.01", "randk:0.01")]
[4000000, 1015628, 50000, 40000]
"""

from basegraph.wires.catalog import WIRES, require_wire, wire
from basegraph.wires.contract import Codec, Wire

__all__ = ["WIRES", "Codec", "Wire", "require_wire", "wire"]
