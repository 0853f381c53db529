"""Local steps: several steps of training for each round of the topology.

With `local_steps` = s, the steps s-1, 2s-1, 3s-1, ... end with a round; the others mix nothing.
"""

from __future__ import annotations


def communicates(step: int, local_steps: int) -> bool:
    """Whether the nodes mix at the end of this step.

    Args:
        step: The step, from 0.
        local_steps: How many steps there are for each round, at least 1.

    Example:
        >>> [communicates(step, local_steps=3) for step in range(6)]
        [False, False, True, False, False, True]

    """
    return (step + 1) % local_steps == 0


def round_index(step: int, local_steps: int) -> int:
    """Which round of the topology a communicating step uses: they come one after another.

    Args:
        step: The step, from 0.
        local_steps: How many steps there are for each round, at least 1.

    Example:
        >>> [round_index(step, local_steps=3) for step in (2, 5, 8)]
        [0, 1, 2]

    """
    return step // local_steps
