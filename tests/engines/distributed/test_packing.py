"""What nodes send each other: nested content as JSON and tensors."""

from __future__ import annotations

import math

import pytest
import torch

from basegraph.engines.distributed.packing import empty_like, pack, unpack


def test_a_trained_optimizer_s_state_comes_out_as_it_went_in():
    net = torch.nn.Linear(3, 2)
    inner = torch.optim.AdamW(net.parameters(), lr=0.1, amsgrad=True)
    net(torch.ones(1, 3)).sum().backward()
    inner.step()
    content = inner.state_dict()
    text, tensors = pack(content)
    received = empty_like(text)
    assert [(t.dtype, t.shape) for t in received] == [(t.dtype, t.shape) for t in tensors]
    for mine, theirs in zip(received, tensors, strict=True):
        mine.copy_(theirs)
    back = unpack(text, received)
    assert back["param_groups"] == content["param_groups"]
    assert isinstance(back["param_groups"][0]["betas"], tuple)
    assert list(back["state"]) == [0, 1]
    for number, state in content["state"].items():
        for name, value in state.items():
            assert torch.equal(back["state"][number][name], value), name


@pytest.mark.parametrize(
    "value",
    [None, True, -3, 0.1, math.inf, "x", [], {}, (), {"tensor": 1, ("a", 2): [(3,)]}, [[{1: {}}]]],
)
def test_plain_values_come_out_as_they_went_in(value):
    text, tensors = pack(value)
    assert tensors == []
    assert unpack(text, tensors) == value


def test_types_and_views_are_kept_and_nothing_is_copied():
    whole = torch.arange(6, dtype=torch.bfloat16)
    content = [whole[:3], whole.reshape(2, 3).T, torch.tensor(True), torch.empty(0, 4)]
    text, tensors = pack(content)
    assert tensors[0].data_ptr() == whole.data_ptr()
    assert all(torch.equal(a, b) for a, b in zip(unpack(text, tensors), content, strict=True))
    assert [t.dtype for t in empty_like(text)] == [t.dtype for t in content]


def test_what_cannot_be_sent_is_refused_by_its_type():
    with pytest.raises(TypeError, match="set cannot be sent to another node"):
        pack({"a": {1, 2}})
