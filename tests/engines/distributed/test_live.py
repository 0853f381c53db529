"""Nodes join and leave while the others train on."""

from __future__ import annotations

import signal
import statistics

import pytest

import basegraph as bg
from support.live import LiveJob

pytest.importorskip("torchft")


def mean(vectors):
    return [statistics.fmean(values) for values in zip(*vectors, strict=True)]


def near(x, y):
    return x == pytest.approx(y, rel=1e-5, abs=1e-6)


def test_survivors_go_on_and_a_newcomer_joins(tmp_path):
    with LiveJob(tmp_path, 4, still_after=1, algorithm="dsgd") as job:
        first, lost, *others = job.nodes
        job.wait_for_members(*job.nodes)
        lost.signal(signal.SIGKILL)
        survivors = [first, *others]
        job.wait_for_members(*survivors)
        changes = [node.seen("change")[1] for node in survivors]
        assert all(len(change["left"]) == 1 and not change["joined"] for change in changes)
        assert "left: node-1-" in changes[0]["text"]
        assert not any(change["replaced"] for change in changes)
        (step,) = {change["step"] for change in changes}
        # Round 0 of the topology for three nodes comes first: after one period without gradients
        # all hold the average of the survivors' models.
        period = bg.topology(changes[0]["spec"], n=3).period
        last = step + period
        job.until(lambda: all(n.seen("step", step=last) for n in survivors), "one period")
        average = mean([change["x"] for change in changes])
        for node in survivors:
            assert near(node.seen("step", step=last)[0]["x"], average)
        newcomer = job.add()
        job.wait_for_members(*survivors, newcomer)
        welcome = newcomer.seen("change")[0]
        assert welcome["step"] > step
        assert near(welcome["x"], average)
        ends = job.finish(*survivors, newcomer)
        assert len({(end["step"], *end["x"]) for end in ends}) == 1
        assert {len(end["members"]) for end in ends} == {4}


def test_a_node_that_was_stopped_takes_the_present_model(tmp_path):
    with LiveJob(tmp_path, 3) as job:
        job.wait_for_members(*job.nodes)
        stopped, *others = job.nodes
        stopped.signal(signal.SIGSTOP)
        job.wait_for_members(*others)
        asleep = stopped.step
        job.until(lambda: min(node.step for node in others) > asleep + 20, "steps without it")
        stopped.signal(signal.SIGCONT)
        job.wait_for_members(*job.nodes)
        rejoined = stopped.seen("change")[-1]
        assert rejoined["replaced"]
        assert rejoined["step"] > asleep + 20
        source = [n.seen("change", epoch=rejoined["epoch"])[0] for n in others]
        assert rejoined["x"] in [change["x"] for change in source]
        # Nothing was mixed in between with what it had before.
        assert [e["step"] for e in stopped.events if asleep < e["step"] < rejoined["step"]] in (
            [],
            [asleep + 1],
        )
        job.finish(*job.nodes)


def test_the_lighthouse_dies_and_comes_back(tmp_path):
    with LiveJob(tmp_path, 3) as job:
        job.wait_for_members(*job.nodes)
        job.kill_lighthouse()
        step = max(node.step for node in job.nodes)
        job.until(lambda: min(n.step for n in job.nodes) > step + 100, "steps without it")
        assert all("no node can join until it is back" in node.said() for node in job.nodes)
        assert all(len(node.seen("change")) == 1 for node in job.nodes)
        newcomer = None
        job.start_lighthouse()
        newcomer = job.add()
        job.wait_for_members(*job.nodes)
        # Nobody was taken for lost because it had not registered again.
        assert all(not c.get("left") for node in job.nodes for c in node.seen("change"))
        assert newcomer.seen("change")[0]["step"] > step
        job.finish(*job.nodes)


def test_a_node_is_lost_while_the_lighthouse_is_gone(tmp_path):
    with LiveJob(tmp_path, 3) as job:
        job.wait_for_members(*job.nodes)
        job.kill_lighthouse()
        *others, lost = job.nodes
        lost.signal(signal.SIGKILL)
        waits = "and a node is lost: waiting up to 300 s for the lighthouse"
        job.until(lambda: all(waits in node.said() for node in others), "a message")
        job.start_lighthouse()
        job.wait_for_members(*others)
        job.finish(*others)


def test_nodes_save_and_stop_if_the_lighthouse_does_not_come_back(tmp_path):
    options = {"timeout": 3.0, "checkpoint": str(tmp_path / "job")}
    with LiveJob(tmp_path, 2, options=options) as job:
        job.wait_for_members(*job.nodes)
        job.kill_lighthouse()
        first, lost = job.nodes
        lost.signal(signal.SIGKILL)
        assert first.process.wait() == 1
        assert "and a node is lost; saved node 0 after" in first.said()
        assert (tmp_path / "job" / "node-0.safetensors").exists()


def test_everybody_but_one_dies_and_the_job_grows_again(tmp_path):
    with LiveJob(tmp_path, 4) as job:
        job.wait_for_members(*job.nodes)
        *lost, left = job.nodes
        for node in lost:
            node.signal(signal.SIGKILL)
        job.wait_for_members(left)
        newcomers = [job.add(), job.add()]
        job.wait_for_members(left, *newcomers)
        ends = job.finish(left, *newcomers)
        assert len({(end["step"], *end["x"]) for end in ends}) == 1


def test_a_newcomer_dies_during_the_hand_over(tmp_path):
    with LiveJob(tmp_path, 3) as job:
        job.wait_for_members(*job.nodes)
        members = list(job.nodes)
        victim = job.add(dies="taking over")
        assert victim.process.wait() == -signal.SIGKILL
        newcomer = job.add()
        job.wait_for_members(*members, newcomer)
        job.finish(*members, newcomer)


def test_the_node_that_hands_over_dies(tmp_path):
    with LiveJob(tmp_path, 3, first={"dies": "handing over"}) as job:
        job.wait_for_members(*job.nodes)
        source, *others = job.nodes
        newcomer = job.add()
        assert source.process.wait() == -signal.SIGKILL
        job.wait_for_members(*others, newcomer)
        assert newcomer.seen("change")[0]["step"] > 0
        ends = job.finish(*others, newcomer)
        assert len({(end["step"], *end["x"]) for end in ends}) == 1


def test_a_newcomer_with_other_settings_is_refused_by_name(tmp_path):
    with LiveJob(tmp_path, 2) as job:
        first, second = job.nodes
        job.wait_for_members(first, second)
        stranger = job.add(size=7)
        assert stranger.process.wait() == 1
        assert "was refused: it differs from node-" in stranger.said()
        assert "in 'parameters'; here it is [(2, 7)]" in stranger.said()
        job.nodes.remove(stranger)
        job.until(
            lambda: any("node-2-" in n.said() and "was refused" in n.said() for n in job.nodes),
            "the refusal",
        )
        step = max(first.step, second.step)
        job.until(lambda: min(first.step, second.step) > step + 50, "steps without it")
        job.finish(first, second)


VARIANTS = {
    "combine-then-adapt": {"options": {"order": "combine-then-adapt"}},
    "local steps": {"options": {"local_steps": 3}},
    "bfloat16, random topology": {
        "options": {"wire": "bfloat16", "topology": "one-peer-u-equidyn"},
    },
    "evaluations": {"algorithm": "dsgd", "evaluates": 1},
    "evaluations, AdamW": {"kind": "AdamW", "evaluates": 1},
    "AdamW": {"kind": "AdamW"},
    "AdamW, combine-then-adapt": {"kind": "AdamW", "options": {"order": "combine-then-adapt"}},
    "gradient tracking": {"algorithm": "gradient-tracking"},
    "all-reduce": {"algorithm": "allreduce-sgd"},
    "two vectors per node": {"algorithm": "dsgdm-ceca", "options": {"topology": "ceca"}},
    "AdamW, outer optimizer": {"kind": "AdamW", "options": {"local_steps": 4, "outer": "dsgdm"}},
}


QUICK = {
    "evaluations",
    "AdamW, combine-then-adapt",
    "gradient tracking",
    "bfloat16, random topology",
}


@pytest.mark.parametrize(
    "variant", [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in VARIANTS]
)
def test_variants_survive_a_loss_and_a_newcomer(tmp_path, variant):
    with LiveJob(tmp_path, 3, **VARIANTS[variant]) as job:
        job.wait_for_members(*job.nodes)
        lost, *others = job.nodes
        lost.signal(signal.SIGKILL)
        newcomer = job.add()
        job.wait_for_members(*others, newcomer)
        if variant == "all-reduce":
            steps = [{e["step"]: e["x"] for e in n.seen("step")} for n in (*others, newcomer)]
            shared = set(steps[0]) & set(steps[1]) & set(steps[2])
            assert shared
            assert all(near(steps[0][step], mine[step]) for step in shared for mine in steps)
        ends = job.finish(*others, newcomer)
        assert len({(end["step"], *end["x"]) for end in ends}) == 1


@pytest.mark.parametrize(
    "how",
    [
        "all-reduce",
        pytest.param("two-state", marks=pytest.mark.slow),
        pytest.param("gossip", marks=pytest.mark.slow),
    ],
)
def test_the_average_is_that_of_the_nodes_that_are_left(tmp_path, how):
    with LiveJob(tmp_path, 3, first={"dies": "averaging"}, how=how) as job:
        job.wait_for_members(*job.nodes)
        lost, *others = job.nodes
        ends = job.finish(*others)
        assert lost.process.wait() == -signal.SIGKILL
        models = [node.seen("step")[-1]["x"] for node in others]
        for end in ends:
            assert len(end["members"]) == 2
            assert end["x"] == ends[0]["x"]
            assert near(end["x"], [sum(parts) / 2 for parts in zip(*models, strict=True)])


@pytest.mark.parametrize("kind", ["decentralized", pytest.param("AdamW", marks=pytest.mark.slow)])
def test_a_loss_while_averages_are_taken(tmp_path, kind):
    """Some nodes may have an average that others have not: they take part in it once more."""
    with LiveJob(tmp_path, 4, kind=kind, evaluates=1) as job:
        job.wait_for_members(*job.nodes)
        for left in (3, 2):
            job.nodes[left].signal(signal.SIGKILL)
            job.wait_for_members(*job.nodes[:left])
        ends = job.finish(*job.nodes[:2])
        assert len({(end["step"], *end["x"]) for end in ends}) == 1
