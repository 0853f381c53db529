"""What frameworks do: one checkpoint for all nodes, of node 0, in safetensors; run by torchrun."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import safetensors.torch
import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from scripts.habits_script import apart, everything, model, optimizers, train
from support.launch import run_checks

METHODS = {
    **dict.fromkeys(("dsgdm", "qg-dsgdm", "gradient-tracking", "momentum-tracking"), "base:k=1"),
    **dict.fromkeys(("exact-diffusion", "sgp", "d2-published"), "ring"),
    "dsgdm-ceca": "ceca",
}


def approach(x: nn.Parameter, optimizer, steps: int) -> None:
    """Steps towards the mean over nodes of the points that each wants: 1.0."""
    for _ in range(steps):
        x.grad = x.detach() - float(dist.get_rank())
        optimizer.step()


def one_state_serves_all_nodes() -> None:
    """Trackers of node 0 on all nodes, say, would lead them all astray, forever."""
    for method, topology in METHODS.items():
        options = {"algorithm": method, "lr": 0.1, "topology": topology}
        x = nn.Parameter(torch.full((3,), 2.0))
        optimizer = bg.DecentralizedOptimizer([x], **options)
        approach(x, optimizer, 5)
        own = x.detach().clone()
        with optimizer.averaged():
            kept = [copy.deepcopy((x.detach(), optimizer.state_dict()))]
        assert torch.equal(x, own), method
        dist.broadcast_object_list(kept)
        value, state = kept[0]
        y = nn.Parameter(value)
        resumed = bg.DecentralizedOptimizer([y], **options)
        resumed.load_state_dict(state)
        assert resumed.gossip_step == 5
        assert apart(y.detach()) == 0, method
        approach(y, resumed, 60)
        with resumed.averaged():
            assert torch.allclose(y, torch.ones(3), atol=0.2), (method, y)


def a_state_of_one_node_is_refused_elsewhere() -> None:
    """Saved on rank 0 alone and loaded everywhere, as scripts for DDP do."""
    for method, topology in {**METHODS, "d2": "ring"}.items():
        options = {"algorithm": method, "lr": 0.1, "topology": topology, "allow_unstable": True}
        x = nn.Parameter(torch.full((3,), 2.0))
        optimizer = bg.DecentralizedOptimizer([x], **options)
        begun = copy.deepcopy(optimizer.state_dict())
        optimizer.load_state_dict(begun)
        approach(x, optimizer, 2)
        own = copy.deepcopy(optimizer.state_dict())
        kept = [(x.detach().clone(), own)]
        dist.broadcast_object_list(kept)
        value, state = kept[0]
        y = nn.Parameter(value)
        resumed = bg.DecentralizedOptimizer([y], **options)
        why = None
        try:
            resumed.load_state_dict(state)
        except bg.InvalidArgument as error:
            why = str(error)
        tied = method not in ("dsgdm", "qg-dsgdm", "dsgdm-ceca")
        if dist.get_rank() == 0 or not tied:
            assert why is None, (method, why)
        else:
            assert why is not None, method
            assert "of node 0 of 3" in why, why
            assert "inside `with optimizer.averaged():`" in why, why
            assert resumed.gossip_step == 0, "nothing of it was taken"
        again = bg.DecentralizedOptimizer([nn.Parameter(x.detach().clone())], **options)
        again.load_state_dict(own)
        assert again.gossip_step == 2


def anchors_are_the_average() -> None:
    outer = {"local_steps": 4, "outer": "dsgdm:momentum=0.9,nesterov=true", "topology": "ring"}
    for number in range(2):
        net = model(norm=False)
        optimizer = list(optimizers(net, **outer))[number]
        train(net, optimizer, 7)
        own = copy.deepcopy(optimizer.state_dict())
        with optimizer.averaged():
            average = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
            state = copy.deepcopy(optimizer.state_dict())
        for each, equal in ((state, True), (own, False)):
            name = ("anchor", "outer_x")[number]
            anchor = torch.cat([part[name].reshape(-1) for part in each["state"].values()])
            assert torch.equal(anchor, average) is equal
        after = optimizer.state_dict()
        assert str(after) == str(own), "the node goes on with its own"


def safetensors_saves_every_parameter() -> None:
    for number in range(2):
        net = model()
        optimizer = list(optimizers(net, model=net))[number]
        train(net, optimizer, 2)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            safetensors.torch.save_model(net, str(file))
            assert safetensors.torch.load_file(file).keys() == net.state_dict().keys()
            before = everything(net)
            train(net, optimizer, 1)
            safetensors.torch.load_model(net, str(file))
        assert torch.equal(everything(net), before)
        assert not optimizer._node.flat._left(), "still where the optimizer trains"


def main() -> None:
    run_checks(
        one_state_serves_all_nodes,
        a_state_of_one_node_is_refused_elsewhere,
        anchors_are_the_average,
        safetensors_saves_every_parameter,
    )


if __name__ == "__main__":
    main()
