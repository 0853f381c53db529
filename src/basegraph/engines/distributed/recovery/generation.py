"""Which start of a job this is: a node of an earlier one may have hung, and wake up too late.

The folder of a job counts its starts in a small file. Nodes agree on the number when they start,
every file that a node saves has it, and a node that the folder has overtaken saves nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.collectives import all_gather
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import HANDSHAKE, together
from basegraph.errors import short
from basegraph.storage.files import replacing

GENERATION_FILE = "generation.json"


def last(folder: Path) -> int:
    """The number of the last start that this folder knows of; 0 if of none."""
    path = folder / GENERATION_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
    number = facts.get("generation") if isinstance(facts, dict) else facts
    if type(number) is not int or not 0 <= number < 2**63 - 1:
        raise CheckpointError(f"{path}: generation={short(number)}: must be an integer ≥ 0")
    return number


def agree(folder: Path, highest: int, membership: Membership) -> int:
    """The number of this start: one more than any node knows of.

    Args:
        folder: Of the job.
        highest: The highest number among the nodes' files there.
        membership: Who the nodes are.

    """
    known = together(lambda: max(highest, last(folder)), membership, HANDSHAKE)
    own = torch.tensor([known], device=membership.device)
    return 1 + max(int(number) for number in all_gather(own, membership, HANDSHAKE))


def begin(folder: Path, number: int) -> None:
    """Let the folder know of this start; nodes of earlier ones save nothing there any more."""
    if last(folder) >= number:  # another node on this machine was quicker
        return
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / GENERATION_FILE) as temporary:
        temporary.write_text(json.dumps({"generation": number}) + "\n", encoding="utf-8")
