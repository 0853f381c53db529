"""What a node's options refuse, before any process is waited for."""

from __future__ import annotations

import pytest
import torch

from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import InvalidArgument

REFUSED = [
    ({"order": "both"}, "order='both': must be one of adapt-then-combine, combine-then-adapt"),
    ({"buffers": "mean"}, "buffers='mean': must be one of local, average"),
    ({"buffers": "average"}, "buffers='average': needs model="),
    ({"local_steps": 0}, "local_steps=0: must be an integer ≥ 1"),
    ({"local_steps": True}, "local_steps=True: must be an integer ≥ 1"),
    ({"timeout": 0.0}, "timeout=0.0: must be a number of seconds"),
    ({"wire": torch.int8}, "wire=torch.int8: must be a floating-point type"),
    ({"wire": "int9"}, "wire='int9': did you mean 'int8'?"),
    ({"wire": "topk:2"}, "fraction=2.0: must be a number in (0, 1]"),
    ({"checkpoint_every": -1}, "checkpoint_every=-1: must be an integer ≥ 0"),
    ({"checkpoint_every": 5}, "checkpoint_every=5: needs checkpoint=, a folder"),
]


@pytest.mark.parametrize(("options", "complaint"), REFUSED)
def test_wrong_options_are_refused_by_name(options, complaint):
    with pytest.raises(InvalidArgument) as refusal:
        NodeOptions(**options)
    assert str(refusal.value).startswith(complaint)


def test_options_that_go_together():
    model = torch.nn.BatchNorm1d(2)
    options = NodeOptions(
        model=model, buffers="average", checkpoint="folder", checkpoint_every=5, wire=torch.bfloat16
    )
    assert options.common()["buffers"] == "average"
    assert options.common()["checkpoint"] is True  # the folders themselves may differ
    assert not options.overlapped
