"""More of what users' scripts do that must not go wrong silently; run by torchrun."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from basegraph.engines.distributed.stamp import OutOfStep
from scripts.habits_script import apart, everything, model, of_all, optimizers, train
from support.launch import run_checks


class Assigning(torch.optim.SGD):
    """Puts the parameters' values elsewhere, as SAM does."""

    def step(self, closure=None):
        loss = super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data.clone()
        return loss


def optimizers_that_assign_data_are_mixed() -> None:
    ends = []
    for kind in (torch.optim.SGD, Assigning):
        for order in ("adapt-then-combine", "combine-then-adapt"):
            net = model(norm=False)
            train(net, bg.Gossip(kind(net.parameters(), lr=0.05), order=order), 5)
            ends.append(everything(net))
    assert torch.equal(ends[0], ends[2])
    assert torch.equal(ends[1], ends[3])


def closures_update_buffers() -> None:
    statistics = []
    for with_closure in (False, True):
        net = model()
        inner = torch.optim.SGD(net.parameters(), lr=0.0)
        optimizer = bg.Gossip(inner, model=net, buffers="average")
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(dist.get_rank()))

        def closure(net=net, x=x):
            net.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return loss

        for _ in range(5):
            if with_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
        statistics.append(net[1].running_mean.clone())
    assert statistics[0].abs().max() > 0.01
    assert torch.allclose(*statistics)


def averaged_gives_the_own_model_back() -> None:
    net = model(norm=False)
    optimizer = bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.05))
    train(net, optimizer, 2)
    for p in net.parameters():
        p.data = torch.full_like(p, 10.0 + dist.get_rank())
    middle = 10 + (dist.get_world_size() - 1) / 2
    with optimizer.averaged():
        assert torch.allclose(everything(net), torch.tensor(middle, dtype=torch.float64))
        with optimizer.averaged():
            for p in net.parameters():
                p.data = p.data.clone() + 1
        try:
            optimizer.step()
        except bg.BasegraphError as error:
            assert "inside averaged()" in str(error)
        else:
            raise AssertionError("a step on a model that is not the node's own")
    assert torch.equal(everything(net), torch.full_like(everything(net), 10.0 + dist.get_rank()))


def parameters_may_change_behind_an_exchange() -> None:
    """As with weights that are clipped after every step."""
    p = nn.Parameter(torch.full((1_000_000,), 2.0 + dist.get_rank()))
    optimizer = bg.DecentralizedOptimizer(
        [p], "dsgd", lr=0.1, order="combine-then-adapt", topology="complete", broadcast=True
    )
    for _ in range(4):
        p.grad = torch.zeros_like(p)
        optimizer.step()
        with torch.no_grad():
            p.clamp_(-1, 1)
    assert torch.equal(p, torch.ones_like(p))


def two_optimizers_are_told_apart() -> None:
    first, second = (nn.Parameter(torch.full((3,), value)) for value in (0.0, 100.0))
    group = dist.new_group([0, 1])
    options = {"lr": 0.1, "topology": "complete", "group": group}
    a = bg.DecentralizedOptimizer([first], "dsgd", **options)
    b = bg.DecentralizedOptimizer([second], "dsgd", **options)
    first.grad, second.grad = torch.zeros(3), torch.zeros(3)
    try:
        for optimizer in (a, b) if dist.get_rank() == 0 else (b, a):
            optimizer.step()
    except OutOfStep as error:
        assert "of optimizer" in str(error), error
    else:
        raise AssertionError("taken for each other")
    assert torch.equal(first, torch.zeros(3))
    assert torch.equal(second, torch.full((3,), 100.0))


def all_reduces_are_told_apart() -> None:
    """A backend adds up whatever comes at the same time."""
    calls = {
        "averages": ("consensus", "averaged"),
        "steps": ("step", "consensus"),
        "optimizers": ("consensus", "consensus"),
    }
    for name, (mine, theirs) in calls.items():
        group = dist.new_group([0, 1])
        pair = [nn.Parameter(torch.full((size,), 3.0)) for size in (4, 5)]
        a, b = (
            bg.DecentralizedOptimizer([p], "allreduce-sgd", lr=0.1, group=group, timeout=30)
            for p in pair
        )
        pair[0].grad, pair[1].grad = torch.zeros(4), torch.zeros(5)
        first = dist.get_rank() == 0
        optimizer = b if name == "optimizers" and first else a
        try:
            if (mine if first else theirs) == "step":
                optimizer.step()
            elif (mine if first else theirs) == "consensus":
                optimizer.consensus(how="all-reduce")
            else:
                with optimizer.averaged(how="all-reduce"):
                    pass
        except OutOfStep as error:
            assert f"node {dist.get_rank()} is in" in str(error), error
        else:
            raise AssertionError(f"taken for each other: {name}")
        assert all(torch.equal(p, torch.full_like(p, 3.0)) for p in pair)


def a_model_that_was_loaded_on_one_node_alone_is_sent_to_all() -> None:
    """As with DDP, whose constructor does that; the optimizer's state is loaded everywhere."""
    for kind in (0, 1):
        net = model(seed=dist.get_rank(), norm=False)
        optimizer = list(optimizers(net))[kind]
        train(net, optimizer, 3)
        kept, trained = [None], everything(net)
        if dist.get_rank() == 0:
            kept = [copy.deepcopy((net.state_dict(), optimizer.state_dict()))]
        dist.broadcast_object_list(kept)
        dist.broadcast(trained, 0)
        again = model(seed=7 + dist.get_rank(), norm=False)
        if dist.get_rank() == 0:
            again.load_state_dict(kept[0][0])
        resumed = list(optimizers(again))[kind]
        resumed.load_state_dict(kept[0][1])
        assert torch.equal(everything(again), trained)


def consensus_is_exact_whatever_the_wire() -> None:
    p = nn.Parameter(torch.zeros(4))
    optimizer = bg.DecentralizedOptimizer([p], lr=0.1, wire=torch.bfloat16)
    with torch.no_grad():
        p.fill_(1 + 0.002 * dist.get_rank())
    average = of_all(p.detach()).double().mean(dim=0)
    optimizer.consensus()
    assert (p.double() - average).abs().max() < 1e-6


def buffers_that_are_not_finite_do_not_pull() -> None:
    net = nn.Linear(1, 1)
    net.register_buffer("seen", torch.tensor([3.0]))
    optimizer = bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1), model=net)
    if dist.get_rank() == 1:
        net.seen.fill_(torch.nan)
    optimizer.consensus()
    assert torch.isnan(net.seen) if dist.get_rank() == 1 else net.seen == 3.0


def an_evaluation_before_resuming_loses_nothing() -> None:
    loaded = model(norm=False)
    train(loaded, optimizer := bg.DecentralizedOptimizer(loaded.parameters(), lr=0.05), 3)
    kept, mine = optimizer.state_dict(), {k: v.clone() for k, v in loaded.state_dict().items()}
    for by_data in (False, True):
        net = model(seed=3, norm=False)
        if not by_data:
            net.load_state_dict(mine)
        again = bg.DecentralizedOptimizer(net.parameters(), lr=0.05)
        if by_data:  # which torch does not count as a write
            for p, value in zip(net.parameters(), mine.values(), strict=True):
                p.data.copy_(value)
        with again.averaged():
            pass
        again.load_state_dict(kept)
        assert torch.equal(everything(net), everything(loaded)), by_data
    other = bg.DecentralizedOptimizer(model(norm=False).parameters(), "qg-dsgdm", lr=0.05)
    try:
        other.load_state_dict(kept)
    except bg.InvalidArgument as error:
        assert "must be a state of qg-dsgdm" in str(error)
    else:
        raise AssertionError("the state of another method")


def joining_ends() -> None:
    net = model(norm=False)
    optimizer = bg.DecentralizedOptimizer(net.parameters(), lr=0.05)
    with optimizer.join():
        train(net, optimizer, 1 + dist.get_rank())
        if dist.get_rank() == 1:
            try:
                optimizer.consensus()
            except bg.BasegraphError as error:
                assert "inside join()" in str(error)
            else:
                raise AssertionError("some nodes would not take part")
    assert not optimizer._join_config.enable
    optimizer.consensus()
    assert apart(everything(net)) == 0


def the_state_is_shown_as_it_is() -> None:
    p = nn.Parameter(torch.zeros(2))
    optimizer = bg.DecentralizedOptimizer([p], "dsgdm", lr=0.1, momentum=0.9)
    for expected in (1.0, 1.9, 2.71):
        p.grad = torch.ones(2)
        optimizer.step()
        assert torch.allclose(optimizer.state[p]["momentum"], torch.full((2,), expected))


def main() -> None:
    run_checks(
        optimizers_that_assign_data_are_mixed,
        closures_update_buffers,
        averaged_gives_the_own_model_back,
        parameters_may_change_behind_an_exchange,
        consensus_is_exact_whatever_the_wire,
        buffers_that_are_not_finite_do_not_pull,
        an_evaluation_before_resuming_loses_nothing,
        joining_ends,
        the_state_is_shown_as_it_is,
        a_model_that_was_loaded_on_one_node_alone_is_sent_to_all,
        two_optimizers_are_told_apart,
        all_reduces_are_told_apart,
    )


if __name__ == "__main__":
    main()
