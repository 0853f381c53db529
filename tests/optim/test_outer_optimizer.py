"""The optimizers with an outer method: resuming, loading, refusing. A single node, no neighbors."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg

OUTER = "dsgdm:momentum=0.9,nesterov=true"


@pytest.fixture(autouse=True)
def _single_node():
    with pytest.warns(UserWarning, match="single node and exchanges nothing"):
        bg.DecentralizedOptimizer([nn.Parameter(torch.zeros(1))], lr=0.1)
    yield
    dist.destroy_process_group()


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def gossip(net, **options):
    options = {"local_steps": 4, "outer": OUTER, "outer_lr": 0.6, **options}
    return bg.Gossip(torch.optim.AdamW(net.parameters(), lr=0.01), "ring", **options)


def decentralized(net, **options):
    options = {"local_steps": 4, "outer": OUTER, "outer_lr": 0.6, **options}
    return bg.DecentralizedOptimizer(net.parameters(), "adamw", lr=0.01, **options)


def train(net, optimizer, first, last):
    for step in range(first, last):
        draws = torch.Generator().manual_seed(step)
        x = torch.randn(16, 4, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), x.sum(dim=1, keepdim=True)).backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach().clone()


@pytest.mark.parametrize("kind", [gossip, decentralized])
def test_resumes_between_outer_steps(kind):
    net = model()
    optimizer = kind(net)
    train(net, optimizer, 0, 6)
    kept = copy.deepcopy([net.state_dict(), optimizer.state_dict()])
    expected = train(net, optimizer, 6, 13)
    again = model(seed=1)
    resumed = kind(again)
    resumed.load_state_dict(kept[1])
    again.load_state_dict(kept[0])
    assert resumed.gossip_step == 6
    assert torch.equal(train(again, resumed, 6, 13), expected)


@pytest.mark.parametrize("kind", [gossip, decentralized])
def test_a_model_loaded_before_the_first_step_is_the_anchor(kind):
    net, late = model(), model(seed=1)
    optimizer, other = kind(net), kind(late)
    late.load_state_dict(net.state_dict())
    assert torch.equal(train(net, optimizer, 0, 5), train(late, other, 0, 5))


@pytest.mark.parametrize("kind", [gossip, decentralized])
def test_a_consensus_is_the_next_anchor(kind):
    """All that came of local steps has been averaged: nothing of it is left for the outer step."""
    net = model()
    optimizer = kind(net, outer="dsgd", outer_lr=1.0)
    train(net, optimizer, 0, 6)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(1.0)  # as if the others were elsewhere
    optimizer.consensus()
    before = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    assert torch.allclose(train(net, optimizer, 6, 9), before, rtol=0, atol=1e-6)


def test_a_state_of_another_kind_is_refused():
    net = model()
    optimizer, plain = gossip(net), gossip(net, outer=None, outer_lr=None)
    train(net, optimizer, 0, 5)
    train(net, plain, 0, 5)
    state = optimizer.state_dict()
    with pytest.raises(bg.InvalidArgument, match="must be of a Gossip without outer="):
        plain.load_state_dict(state)
    with pytest.raises(bg.InvalidArgument, match="must be of a Gossip with outer="):
        optimizer.load_state_dict(plain.state_dict())
    with pytest.raises(bg.InvalidArgument, match="must be an outer state of dsgd"):
        gossip(net, outer="dsgd").load_state_dict(state)
    with pytest.raises(bg.InvalidArgument, match=r"must be a state of adamw\+dsgd"):
        decentralized(net, outer="dsgd").load_state_dict(decentralized(net).state_dict())


@pytest.mark.parametrize("kind", [gossip, decentralized])
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"outer_lr": 0.0}, r"outer_lr=0\.0: must be a number above 0"),
        ({"outer_lr": "high"}, "outer_lr='high': must be a number above 0"),
        ({"outer": None}, r"outer_lr=0\.6: needs outer="),
        ({"outer": "dsgdmm"}, "outer='dsgdmm': did you mean 'dsgdm'"),
        ({"outer": "dsgdm:nesterof=true"}, "option of dsgdm='nesterof'"),
        ({"outer": "dsgdm:momentum=2"}, r"^outer='dsgdm:momentum=2': momentum=2\.0: must be a"),
        ({"order": "combine-then-adapt"}, "order='combine-then-adapt': is not for an outer"),
    ],
)
def test_refused(kind, options, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        kind(model(), **options)


def test_adamw_in_groups():
    net = model()
    weights, biases = (
        [p for p in net.parameters() if (p.dim() > 1) == two] for two in (True, False)
    )
    groups = [{"params": weights, "eps": 0.01}, {"params": biases, "weight_decay": 0.0}]
    optimizer = bg.DecentralizedOptimizer(groups, "adamw", lr=0.01, weight_decay=0.5)
    plain = model()
    weights, biases = (
        [p for p in plain.parameters() if (p.dim() > 1) == two] for two in (True, False)
    )
    expected = torch.optim.AdamW(
        [
            {"params": weights, "eps": 0.01, "weight_decay": 0.5},
            {"params": biases, "weight_decay": 0.0},
        ],
        lr=0.01,
    )
    assert torch.allclose(train(net, optimizer, 0, 20), train(plain, expected, 0, 20), atol=1e-6)
    groups[1]["beta2"] = 0.95
    with pytest.raises(bg.InvalidArgument, match=r"beta2=0\.95: must be the same in all groups"):
        bg.DecentralizedOptimizer(groups, "adamw", lr=0.01)
    groups[1] = {"params": groups[1]["params"], "mix_moments": True}
    with pytest.raises(bg.InvalidArgument, match="must send as many vectors in all groups"):
        bg.DecentralizedOptimizer(groups, "adamw", lr=0.01)
    with pytest.raises(bg.InvalidArgument, match=r"momentum=0\.9: adamw has no such option"):
        bg.DecentralizedOptimizer(net.parameters(), "adamw", lr=0.01, momentum=0.9)
    with pytest.raises(bg.InvalidArgument, match="is for dsgd, dsgdm and adamw, not adamw:"):
        bg.DecentralizedOptimizer(
            net.parameters(), "adamw:mix_moments=true", lr=0.01, order="combine-then-adapt"
        )
