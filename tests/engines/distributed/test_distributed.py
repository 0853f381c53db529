"""One node per process over gloo: the same numbers, users' scripts, faults and mistakes."""

from __future__ import annotations

import re
import signal

import pytest
import torch
from safetensors.torch import load_file

import basegraph as bg
from basegraph.engines.distributed.stamp import OutOfStep, Stamp, require_same
from support.forks import nodes_of


@pytest.mark.parametrize(
    ("n", "methods"),
    [(5, "some"), *(pytest.param(n, "all", marks=pytest.mark.slow) for n in (4, 5, 6))],
)
def test_same_numbers_as_in_one_process(n, methods):
    done = nodes_of(n, "same_numbers.py", methods)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    every = sum(make().vectors == 1 for make in bg.ALGORITHMS.values()) + 1  # and one in float32
    on_topologies = 6 * every if methods == "all" else 2 * every + 4 * 5
    assert done.stdout.count("'adapt-then-combine'") == on_topologies + 3 + 6 + 1
    assert done.stdout.count("'combine-then-adapt'") == 6


@pytest.mark.parametrize("n", [4, pytest.param(3, marks=pytest.mark.slow)])
def test_what_users_do(n):
    done = nodes_of(n, "user_script.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "all fine" in done.stdout


def test_habits_of_users():
    """BatchNorm, resuming, uneven data, topologies without an exact period, bf16 on the wire."""
    done = nodes_of(4, "habits_script.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 7


def test_wires():
    """Every wire as in the simulator; the average, bytes, resets; what is refused."""
    done = nodes_of(5, "wires.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]


def test_more_habits_of_users():
    """SAM, closures, clipped weights, several optimizers, evaluations in between."""
    done = nodes_of(2, "second_habits_script.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 12


def test_one_checkpoint_for_all_nodes():
    """As frameworks write it: by node 0, in safetensors, with the state inside averaged()."""
    done = nodes_of(3, "one_checkpoint.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 4


@pytest.mark.parametrize(
    ("how", "order"),
    [(signal.SIGKILL, "combine-then-adapt"), (signal.SIGSTOP, "adapt-then-combine")],
)
def test_a_lost_node_stops_the_others(how, order, tmp_path):
    """Without torchrun, which would stop them itself."""
    done = nodes_of(
        4, "endless_script.py", "20", tmp_path, order, "lost", "2", int(how), watched=False
    )
    for rank in (0, 1, 3):
        assert done.codes[rank] == 1, done
        said = re.search(
            rf"stopped at step (\d+), as it was: True; node {rank}: node 2 .*", done.stdout
        )
        assert said is not None, done
        in_time = " within 20 s" if how == signal.SIGSTOP else ""
        place = rf"at step {said.group(1)} \(round \d of 2\){in_time}"
        assert re.search(rf"{place} \(waited \d+\.\d\d s\)", said.group())
        assert f"saved node {rank} after" in said.group()
    assert done.codes.get(2) == (-how if how == signal.SIGKILL else None)
    assert "Traceback" not in done.stderr


def test_values_that_are_no_numbers_do_not_spread(tmp_path):
    """Neither to the neighbor nor into a file: both nodes save what they had before."""
    flags = ["60", tmp_path, "adapt-then-combine", "not-a-number", "1"]
    done = nodes_of(2, "endless_script.py", *flags, watched=False)
    why = ["node 1 sent values that are not finite", "its own values are not finite"]
    for rank, reason in enumerate(why):
        assert done.codes[rank] == 1, done
        (said,) = [line for line in done.stdout.splitlines() if f"; node {rank}: " in line]
        assert f"node {rank}: {reason} at step 5" in said
        assert "as it was: True" in said
        assert f"saved node {rank} after 5 steps" in said
        assert torch.isfinite(load_file(tmp_path / f"node-{rank}.safetensors")["x"]).all()


MISTAKES = {
    "topology": (
        'bg.DecentralizedOptimizer(net.parameters(), lr=0.1, topology="rong")',
        "topology='rong': did you mean 'ring'",
    ),
    "other n": (
        'bg.DecentralizedOptimizer(net.parameters(), lr=0.1, topology=bg.topology("base", n=5))',
        "is for n=5; the process group has 3",
    ),
    "unstable": (
        'bg.DecentralizedOptimizer(net.parameters(), "d2", lr=0.1, topology="base:k=1")',
        "d2 is unstable on base:k=1 with n=3",
    ),
    "algorithm": (
        'bg.DecentralizedOptimizer(net.parameters(), "sgdd", lr=0.1)',
        "algorithm='sgdd'",
    ),
    "option": (
        'bg.DecentralizedOptimizer(net.parameters(), "dsgd", lr=0.1, momentum=0.9)',
        "momentum=0.9: dsgd has no such option",
    ),
    "lr": ("bg.DecentralizedOptimizer(net.parameters(), lr=-1)", "lr=-1: must be a number ≥ 0"),
    "order": (
        'bg.DecentralizedOptimizer(net.parameters(), "sgp", lr=0.1, order="combine-then-adapt")',
        "is for dsgd, dsgdm and adamw, not sgp",
    ),
    "types": (
        "bg.DecentralizedOptimizer([net.weight, net.bias.double().detach().requires_grad_()],"
        " lr=0.1)",
        "must all have one type and be on one device",
    ),
    "different settings": (
        "bg.DecentralizedOptimizer(net.parameters(), lr=0.1, local_steps=1 + RANK)",
        "node 1 differs from node 0 in 'local_steps'",
    ),
    "different models": (
        "bg.DecentralizedOptimizer(torch.nn.Linear(4, 3 + RANK).parameters(), lr=0.1)",
        "node 1 differs from node 0 in 'parameters'",
    ),
    "different wire": (
        "bg.DecentralizedOptimizer(net.parameters(), lr=0.1,"
        " wire=(None, torch.bfloat16, None)[RANK])",
        "node 1 differs from node 0 in 'wire'",
    ),
    "different order": (
        "bg.DecentralizedOptimizer(pair.parameters() if RANK else list(pair.parameters())[::-1],"
        " lr=0.1, model=pair)",
        "node 1 differs from node 0 in 'names of the parameters, in their order'",
    ),
    "different order without model=": (
        "bg.DecentralizedOptimizer(pair.parameters() if RANK else list(pair.parameters())[::-1],"
        " lr=0.1)",
        "node 1 differs from node 0 in 'names of the parameters, in their order'",
    ),
    "different checkpoints": (
        "bg.DecentralizedOptimizer(net.parameters(), lr=0.1, checkpoint=None if RANK else FOLDER)",
        "node 1 differs from node 0 in 'checkpoint'",
    ),
    "different rounds": (
        "bg.DecentralizedOptimizer(net.parameters(), lr=0.1, allow_unstable=True,"
        " topology=bg.Sequence(["
        "bg.Round.from_edges(3, {(0, 1): Fraction(1, 2 + (RANK == 1))})]))",
        "node 1 differs from node 0 in 'rounds'",
    ),
    "different topologies": (
        "bg.Gossip(torch.optim.SGD(net.parameters(), lr=0.1),"
        ' ("ring", "exponential", "ring")[RANK])',
        "node 1 differs from node 0 in 'topology'",
    ),
}


def test_mistakes_are_refused_on_every_node(tmp_path):
    calls = {name: call for name, (call, _) in MISTAKES.items()}
    (tmp_path / "script.py").write_text(
        "import os\nfrom fractions import Fraction\nimport torch\nimport basegraph as bg\n"
        f"FOLDER = {str(tmp_path / 'saved')!r}\n"
        "pair = torch.nn.Bilinear(2, 2, 2)\n"
        "pair.bias = torch.nn.Parameter(torch.zeros(2, 2, 2))\n"
        'RANK = int(os.environ["RANK"])\n'
        "net = torch.nn.Linear(4, 3)\n"
        f"for name, call in {calls!r}.items():\n"
        "    try:\n        eval(call)\n"
        "    except bg.BasegraphError as error:\n"
        '        print(f"{RANK} refused {name}: {error}", flush=True)\n'
    )
    done = nodes_of(3, tmp_path / "script.py")
    assert done.returncode == 0, done.stderr[-2000:]
    for name, (_, complaint) in MISTAKES.items():
        for rank in range(3):
            said = rf"{rank} refused {name}: .*{re.escape(complaint)}"
            assert re.search(said, done.stdout), (name, rank, done.stdout)


def test_a_module_is_no_optimizer():
    net = torch.nn.Linear(2, 2)
    with pytest.raises(bg.InvalidArgument, match=r"must be a torch\.optim\.Optimizer"):
        bg.Gossip(net, "ring")


@pytest.mark.parametrize("n", [3, 5])
def test_every_way_to_the_average(n):
    done = nodes_of(n, "averages.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("all fine") == n


def test_messages_of_different_ways_to_the_average_are_not_mixed_up():
    mine, theirs = Stamp("two-state consensus()", 3), Stamp("consensus()", 3)
    assert Stamp.unpack(mine.pack(torch.device("cpu")))[0] == mine
    with pytest.raises(OutOfStep, match=r"node 0 is in two-state consensus\(\) after 3 steps.*but"):
        require_same(mine, theirs, node=0, peer=1)
