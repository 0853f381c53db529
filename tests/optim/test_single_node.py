"""Scripts started without torchrun are a single node; what can be tested without neighbors."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from basegraph.engines.distributed.buffers import names_of
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.mixer import DistributedMixer
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.pending import Pending
from basegraph.engines.distributed.stamp import Stamp


@pytest.fixture(autouse=True)
def _single_node():
    with pytest.warns(UserWarning, match="single node and exchanges nothing"):
        bg.DecentralizedOptimizer([nn.Parameter(torch.zeros(1))], lr=0.1)
    yield
    dist.destroy_process_group()


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def both(net: nn.Module, **options):
    yield bg.DecentralizedOptimizer(net.parameters(), lr=0.1, momentum=0.9, **options)
    yield bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), **options)


def train(net: nn.Module, optimizer, steps: int = 30) -> float:
    draws = torch.Generator().manual_seed(1)
    dtype = next(net.parameters()).dtype
    for _ in range(steps):
        x = torch.randn(16, 4, generator=draws, dtype=dtype)
        loss = nn.functional.mse_loss(net(x), x.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def values(net: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def require_same(net: nn.Module, plain: nn.Module) -> None:
    """In float64: thirty steps can make the rounding of float32 a hundred times larger."""
    assert values(net).dtype == torch.float64
    assert torch.allclose(values(net), values(plain), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "algorithm",
    ["adamw:beta2=0", "adamw:beta1=0,beta2=0,order=combine-then-adapt", "allreduce-adamw:beta2=0"],
)
def test_adamw_without_memory_is_torchs(algorithm):
    """With β = 0 a moment is that of the last gradient, whatever came before."""
    betas = (0.0 if "beta1=0" in algorithm else 0.9, 0.0)
    parameter, plain = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    optimizer = bg.DecentralizedOptimizer([parameter], algorithm, lr=0.1)
    reference = torch.optim.AdamW([plain], lr=0.1, betas=betas, weight_decay=0.0)
    for size in (1e-1, 1e-5, 1e-6):
        for p, made in ((parameter, optimizer), (plain, reference)):
            p.data.zero_()
            p.grad = size * torch.tensor([1.0, -2.0])
            made.step()
        torch.testing.assert_close(parameter.data, plain.data, rtol=1e-5, atol=0.0)


def test_a_single_node_trains_as_torch_does():
    plain = model().double()
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9))
    for kind in (0, 1):
        net = model().double()
        optimizer = list(both(net))[kind]
        train(net, optimizer)
        optimizer.consensus()
        require_same(net, plain)
    assert dist.get_world_size() == 1


def test_two_vectors_per_node_have_methods_of_their_own():
    plain, net = model().double(), model().double()
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9))
    options = {"lr": 0.1, "momentum": 0.9, "topology": "ceca"}
    optimizer = bg.DecentralizedOptimizer(net.parameters(), "dsgdm-ceca", **options)
    train(net, optimizer)
    require_same(net, plain)
    again = model().double()
    other = bg.DecentralizedOptimizer(again.parameters(), "dsgdm-ceca", **options)
    again.load_state_dict(net.state_dict())
    other.load_state_dict(optimizer.state_dict())
    assert {*other.state[next(again.parameters())]} == {"other", "momentum"}
    assert train(again, other, 3) == train(net, optimizer, 3)


def test_two_vectors_per_node_are_refused_where_one_is_mixed():
    net = model()
    with pytest.raises(bg.InvalidArgument, match=r"topology='ceca': keeps two vec.*dsgdm-ceca"):
        list(both(net, topology="ceca"))
    with pytest.raises(bg.InvalidArgument, match=r"Gossip mixes one: use short:k=1"):
        bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1), topology=bg.topology("ceca", n=1))
    with pytest.raises(bg.InvalidArgument, match="algorithm='dsgd-ceca': keeps two vectors"):
        bg.DecentralizedOptimizer(net.parameters(), "dsgd-ceca", lr=0.1)
    with pytest.raises(bg.InvalidArgument, match="buffers='average': is for one vector per node"):
        bg.DecentralizedOptimizer(
            net.parameters(), "dsgd-ceca", lr=0.1, topology="ceca", model=net, buffers="average"
        )


# -- parameters that leave the buffer ----------------------------------------------------------


def leave_by_data(net):
    for p in net.parameters():
        p.data = p.data.clone()


def leave_by_vector(net):
    flat = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    nn.utils.vector_to_parameters(flat, net.parameters())


def leave_by_transposing(net):
    net[0].weight.data = net[0].weight.data.t().contiguous().t()


def leave_by_conversions(net):
    net.double().float()


@pytest.mark.parametrize(
    "leave", [leave_by_data, leave_by_vector, leave_by_transposing, leave_by_conversions]
)
@pytest.mark.parametrize("kind", [0, 1])
def test_parameters_that_leave_the_buffer_are_taken_back(leave, kind):
    expected = model()
    train(expected, list(both(expected))[kind], 10)
    net = model()
    optimizer = list(both(net))[kind]
    leave(net)
    train(net, optimizer, 10)
    # The forward pass of a transposed matrix rounds differently.
    assert torch.allclose(values(net), values(expected), atol=1e-6)
    buffer = optimizer._node.x_d
    inside = range(buffer.data_ptr(), buffer.data_ptr() + buffer.nbytes)
    assert all(p.data_ptr() in inside for p in net.parameters())


@pytest.mark.parametrize("kind", [0, 1])
def test_parameters_of_another_type_are_refused(kind):
    net = model()
    optimizer = list(both(net))[kind]
    net.double()
    with pytest.raises(bg.BasegraphError, match=r"is torch.float64 .* was torch.float32 .* first"):
        train(net, optimizer, 1)


def test_a_replaced_parameter_is_refused():
    net = model()
    optimizer = bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1), model=net)
    net.load_state_dict(model(1).state_dict(), assign=True)
    with pytest.raises(bg.BasegraphError, match=r"assign=True.*build the optimizer afterwards"):
        train(net, optimizer, 1)


def test_optimizers_are_not_copied():
    for optimizer in both(model()):
        for duplicate in (copy.deepcopy, pickle.dumps):
            with pytest.raises(bg.BasegraphError, match="use state_dict"):
                duplicate(optimizer)


# -- options of parameter groups ---------------------------------------------------------------


def grouped(net: nn.Module, **second) -> list[dict[str, object]]:
    return [{"params": net[0].parameters()}, {"params": net[2].parameters(), **second}]


@pytest.mark.parametrize(
    "second", [{"momentum": 0.0}, {"lr": 0.01}, {"weight_decay": 0.1}, {"nesterov": True}]
)
def test_options_of_a_group_count(second):
    net, plain = model().double(), model().double()
    train(net, bg.DecentralizedOptimizer(grouped(net, **second), lr=0.1, momentum=0.9))
    train(plain, torch.optim.SGD(grouped(plain, **second), lr=0.1, momentum=0.9))
    require_same(net, plain)


def test_options_in_the_spec_of_a_method():
    net, plain = model().double(), model().double()
    train(net, bg.DecentralizedOptimizer(net.parameters(), "dsgdm:momentum=0.5", lr=0.1))
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.5))
    require_same(net, plain)
    with pytest.raises(bg.InvalidArgument, match=r"momentum=0.9: is given in the spec"):
        bg.DecentralizedOptimizer(net.parameters(), "dsgdm:momentum=0.5", lr=0.1, momentum=0.9)


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        ({"lrr": 0.1}, "lrr.*did you mean 'lr'"),
        ({"damping": 0.5}, "damping.*Known: lr, momentum, nesterov, weight_decay"),
        ({"momentum": 1.5}, "momentum=1.5"),
        ({"lr": -1}, "lr=-1: must be a number ≥ 0"),
    ],
)
def test_wrong_options_of_a_group_are_refused(second, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.DecentralizedOptimizer(grouped(model(), **second), lr=0.1)


def test_groups_with_names_and_later_groups():
    net = model()
    optimizer = bg.DecentralizedOptimizer(grouped(net, name="head"), lr=0.1)
    train(net, optimizer, 2)
    for built in (optimizer, bg.Gossip(torch.optim.SGD(model().parameters(), lr=0.1))):
        with pytest.raises(bg.BasegraphError, match="add_param_group"):
            built.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    outer = bg.Gossip(inner)
    inner.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(bg.BasegraphError, match="parameters have changed"):
        outer.step()


@pytest.mark.parametrize("kind", [0, 1])
def test_one_cycle_moves_the_momentum(kind):
    net, plain = model().double(), model().double()
    optimizer = list(both(net))[kind]
    reference = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for module, o in ((net, optimizer), (plain, reference)):
        schedule = torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=20)
        momenta = set()
        for _ in range(19):
            train(module, o, 1)
            schedule.step()
            momenta.add(o.param_groups[0]["momentum"])
        assert len(momenta) > 5
    require_same(net, plain)


def test_parameters_without_a_gradient_do_not_decay():
    used, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = bg.DecentralizedOptimizer([used, unused], lr=0.1, weight_decay=0.5)
    used.sum().backward()
    optimizer.step()
    assert torch.equal(unused, torch.ones(3))
    assert torch.allclose(used, torch.full((3,), 1 - 0.1 * 1.5))


# -- consensus, models, wire --------------------------------------------------------------------


def test_a_model_must_have_the_parameters():
    with pytest.raises(bg.InvalidArgument, match="does not have all the parameters"):
        bg.DecentralizedOptimizer(model().parameters(), lr=0.1, model=nn.Linear(2, 2))
    with pytest.raises(bg.InvalidArgument, match=r"must be a torch.nn.Module"):
        bg.DecentralizedOptimizer(model().parameters(), lr=0.1, model="net")
    with pytest.raises(bg.InvalidArgument, match="needs model="):
        bg.DecentralizedOptimizer(model().parameters(), lr=0.1, buffers="average")


def test_a_group_needs_processes():
    dist.destroy_process_group()
    with pytest.raises(bg.InvalidArgument, match=r"torch\.distributed is not initialized"):
        bg.DecentralizedOptimizer(model().parameters(), lr=0.1, group="mine")
    with pytest.warns(UserWarning, match="torchrun --nproc-per-node 4"):
        bg.Gossip(torch.optim.SGD(model().parameters(), lr=0.1), "ring")


@pytest.mark.parametrize("spec", ["ring", "exponential", "base:k=4", "base:k=1"])
def test_nodes_that_agree_do_not_move(spec):
    """Whatever the rounding of weights; else D² drifts over thousands of steps."""
    t = bg.topology(spec, n=25)
    mixer = DistributedMixer(FixedMembership())
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    for number in range(t.period):
        assert torch.equal(heard(mixer, Schedule(t, node=3), number, x.expand(25, -1)), x)


@pytest.mark.parametrize("spec", ["ring", "base:k=1"])
def test_the_average_over_nodes_stays(spec):
    """Over thousands of rounds in which nodes are pulled apart again and again."""
    n = 5
    t = bg.topology(spec, n=n)
    mixer = DistributedMixer(FixedMembership())
    schedules = [Schedule(t, node) for node in range(n)]
    x = torch.randn(n, 64, generator=torch.Generator().manual_seed(0))
    apart = torch.tensor([1.0, -1.0, 0.5, -0.5, 0.0])[:, None] / 8
    before = x.double().mean(dim=0)
    for number in range(4_000):
        if number % 100 == 0:
            x += apart
        x = torch.stack([heard(mixer, schedules[i], number, x) for i in range(n)])
    assert (x.double().mean(dim=0) - before).norm() < 1e-6 * before.norm()


def heard(mixer, schedule: Schedule, number: int, x_nd: torch.Tensor) -> torch.Tensor:
    """What a node makes of its neighbors' messages in a round."""
    stamp = Stamp("step()", number)
    neighbors = schedule.at(number)
    own = x_nd[schedule.node]
    inbox = [x_nd[j].clone() for j, _ in neighbors.hears]
    pending = Pending(mixer, neighbors, stamp, own, own, [stamp.pack(own.device)], [], inbox, [])
    return pending._mixed(torch.empty_like(own))


@pytest.mark.parametrize("kind", ["gossip", "decentralized"])
def test_hooks_of_state_dicts_are_called(kind):
    p = nn.Parameter(torch.zeros(3))
    optimizer = (
        bg.Gossip(torch.optim.SGD([p], lr=0.1))
        if kind == "gossip"
        else bg.DecentralizedOptimizer([p], lr=0.1)
    )
    called = []
    optimizer.register_state_dict_pre_hook(lambda o: called.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, saved: {k: v for k, v in saved.items() if k != "more"}
    )
    optimizer.register_load_state_dict_post_hook(lambda o: called.append("after loading"))
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)
    assert called == ["before saving", "after loading"]


@pytest.mark.parametrize(("dtype", "device"), [(torch.int64, "cpu"), (torch.float32, "meta")])
def test_parameters_that_cannot_be_averaged_are_refused(dtype, device):
    p = nn.Parameter(torch.zeros(3, dtype=dtype, device=device), requires_grad=False)
    for make in (
        lambda: bg.DecentralizedOptimizer([p], lr=0.1),
        lambda: bg.Gossip(torch.optim.SGD([p], lr=0.1)),
    ):
        with pytest.raises(bg.InvalidArgument, match=f"params='{dtype} on {device}': must be"):
            make()


def test_the_warning_of_a_single_node_names_the_scripts_line():
    dist.destroy_process_group()
    p = nn.Parameter(torch.zeros(3))
    for make in (
        lambda: bg.DecentralizedOptimizer([p], lr=0.1),
        lambda: bg.Gossip(torch.optim.SGD([p], lr=0.1)),
    ):
        with pytest.warns(UserWarning, match="single node") as warned:
            make()
        assert warned[0].filename == __file__
        dist.destroy_process_group()
    with pytest.warns(UserWarning, match="single node"):
        bg.DecentralizedOptimizer([p], lr=0.1)  # whose group the fixture ends


@pytest.mark.parametrize("kind", [0, 1])
def test_models_that_go_to_other_processes_are_trained_on(kind):
    """`share_memory()`, as queues of torch.multiprocessing do, moves the memory of parameters."""
    net, plain = model().double(), model().double()
    optimizer = list(both(net))[kind]
    net.share_memory()
    train(net, optimizer)
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9))
    require_same(net, plain)


def test_parameters_in_one_memory_are_refused():
    net = model()
    net[2].weight.data = net[0].bias.data.view(1, 8)
    for optimizers in (0, 1):
        with pytest.raises(bg.InvalidArgument, match=r"^params=\[1, 2\]: these parameters share"):
            list(both(net))[optimizers]


def test_names_are_those_in_the_smallest_module_with_all_parameters():
    net = model()
    around = nn.ModuleDict({"inner": net, "other": nn.Linear(1, 1)})
    some = [net[2].weight, net[0].weight]
    other = nn.Sequential(net)
    other.parameters = {"of": "another kind"}
    assert names_of(some) == ["2.weight", "0.weight"]
    assert names_of([*some, around["other"].bias]) == [
        "inner.2.weight",
        "inner.0.weight",
        "other.bias",
    ]
    assert names_of([*some, nn.Parameter(torch.zeros(1))]) is None


def test_a_group_that_was_destroyed_is_named():
    p = nn.Parameter(torch.zeros(3))
    optimizer = bg.DecentralizedOptimizer([p], lr=0.1)
    dist.destroy_process_group()
    with pytest.raises(bg.BasegraphError, match="the process group was destroyed"):
        optimizer.membership.group  # noqa: B018
    optimizer.membership.end_waits()  # as the thread does that looks after a deadline
    with pytest.warns(UserWarning, match="single node"):
        bg.DecentralizedOptimizer([p], lr=0.1)  # whose group the fixture ends
