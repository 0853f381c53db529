"""What the nodes of a quorum decide: each by itself, and all alike, from what all have said.

- The membership is unchanged if all are in the same epoch, with the same members, and no
  connections are broken.
- Otherwise a new epoch begins. Nodes of the latest epoch keep their models. All others, new or left
  behind, take the model of the node that has made most steps, the source.
- A node whose settings differ from the source's is refused.
- Where nodes that should be there are missing and may still come, all ask again a little later.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Participant(NamedTuple):
    """A node of a quorum, as it has described itself."""

    name: str
    store: str
    """Where other nodes find its store."""
    step: int
    """Steps that it has made."""
    data: dict[str, Any]
    """What `description` makes."""


def description(
    *,
    epoch: int,
    members: list[str],
    facts: dict[str, str],
    broken: bool = False,
    fresh: bool = False,
    starting: bool = False,
    expected: int = 0,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """What a node says of itself.

    Args:
        epoch: The last epoch that it has met for; 0 if none.
        members: The nodes of the last epoch in which it took part.
        facts: Digests of its settings, by name.
        broken: Whether its connections to the others are.
        fresh: Whether the lighthouse was restarted a moment ago, as far as it knows.
        starting: Whether it waits for others to found the job with.
        expected: How many nodes it waits for.
        seconds: What a step takes here.

    """
    return {
        "epoch": epoch,
        "members": members,
        "facts": facts,
        "broken": broken,
        "fresh": fresh,
        "starting": starting,
        "expected": expected,
        "seconds": seconds,
    }


class Meeting(NamedTuple):
    """Who the nodes are from now on."""

    key: str
    """Different for every meeting."""
    changed: bool
    epoch: int
    members: list[str]
    before: list[str]
    """The members of the epoch before."""
    store: str
    """Of the first member."""
    source: int
    """The node whose model is handed to those that do not keep theirs."""
    keeps: list[bool]
    """Whether a node keeps its model, by node."""
    step: int
    """Steps made: the most of a node that keeps its model."""
    seconds: float
    """What a step takes, at the slowest node."""
    refused: dict[str, str]
    """The setting in which a node that was refused differs from the source, by name."""

    @property
    def source_name(self) -> str:
        """The name of the source."""
        return self.members[self.source]


def decide(key: str, people: list[Participant]) -> Meeting:
    """Who the nodes are, the same whichever node asks.

    Args:
        key: Of the quorum.
        people: Its nodes, in the order of their names.

    Example:
        >>> old = description(epoch=3, members=["a", "b"], facts={})
        >>> new = description(epoch=0, members=[], facts={})
        >>> meeting = decide("", [Participant("a", "", 7, old), Participant("c", "", 0, new)])
        >>> meeting.epoch, meeting.members, meeting.keeps, meeting.step
        (4, ['a', 'c'], [True, False], 7)

    """
    latest = max(p.data["epoch"] for p in people)
    candidates = [p for p in people if p.data["epoch"] == latest]
    source = max(candidates, key=lambda p: (p.step, -people.index(p)))
    refused = {p.name: what for p in people if (what := _difference(p, source))}
    accepted = [p for p in people if p.name not in refused]
    members = [p.name for p in accepted]
    keeps = [p in candidates and (latest > 0 or p is source) for p in accepted]
    changed = not is_unchanged(people)
    return Meeting(
        key=key,
        changed=changed,
        epoch=latest + changed,
        members=members,
        before=source.data["members"],
        store=accepted[0].store,
        source=members.index(source.name),
        keeps=keeps,
        step=max(p.step for p, keep in zip(accepted, keeps, strict=True) if keep),
        seconds=max(p.data["seconds"] for p in accepted),
        refused=refused,
    )


def is_early(people: list[Participant]) -> bool:
    """Whether nodes that should be there may still come: those that are ask again.

    At the start of a job they wait for as many as are expected; after the lighthouse was restarted,
    for those that have not registered again.
    """
    latest = max(p.data["epoch"] for p in people)
    if latest == 0:
        expected = max(p.data["expected"] for p in people)
        return len(people) < expected and any(p.data["starting"] for p in people)
    members = {m for p in people if p.data["epoch"] == latest for m in p.data["members"]}
    return not members <= {p.name for p in people} and any(p.data["fresh"] for p in people)


def is_unchanged(people: list[Participant]) -> bool:
    """Whether these are the nodes of the present epoch, all connected."""
    names, epoch = [p.name for p in people], people[0].data["epoch"]
    return epoch > 0 and all(
        p.data["epoch"] == epoch and p.data["members"] == names and not p.data["broken"]
        for p in people
    )


def _difference(one: Participant, other: Participant) -> str:
    """The first setting in which two nodes differ, or nothing."""
    mine, theirs = one.data["facts"], other.data["facts"]
    names = [*theirs, *(name for name in mine if name not in theirs)]
    return next((name for name in names if mine.get(name) != theirs.get(name)), "")
