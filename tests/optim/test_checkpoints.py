"""Checkpoints of all nodes by torch.distributed.checkpoint, and the averaged model as a file."""

from __future__ import annotations

from basegraph.optim.checkpoints import folder
from basegraph.optim.checkpoints.storage import Stored
from support.forks import nodes_of

SCRIPT = "sharded_checkpoints.py"


def works(processes, *words):
    done = nodes_of(processes, SCRIPT, *words)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return done.stdout


def test_any_number_of_nodes_and_shards_goes_on(tmp_path):
    """Saved by 3 nodes of 2 processes; as many nodes go on bit for bit, others with the average."""
    for processes, what, shards in [(6, "save", 2), (3, "load", 1), (4, "load", 2)]:
        assert works(processes, what, tmp_path, shards).count("fine:") == 4


def test_a_kill_during_a_save_in_the_background_leaves_the_one_before(tmp_path):
    done = nodes_of(6, SCRIPT, "killed", tmp_path, 2)
    assert done.codes[3] == -9, done
    works(4, "after_a_kill", tmp_path, 2)


def test_tied_weights_are_saved_once_and_frozen_ones_come_back(tmp_path):
    works(4, "tied", tmp_path, 2)


def test_the_averaged_model_is_one_file(tmp_path):
    works(6, "export", tmp_path, 2)


def test_torch_checkpoints_by_hand(tmp_path):
    """get_state_dict, dcp.save and dcp.load, sharded and not, flattened and not."""
    done = nodes_of(6, "sharded_by_hand.py", tmp_path)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 3


def test_a_group_that_is_destroyed_during_a_save_leaves_whole_checkpoints(tmp_path):
    nodes_of(3, "destroyed_early.py", tmp_path)
    paths = folder.complete(tmp_path).values()
    assert len(paths) == 1
    for path in paths:
        stored = Stored(path)
        assert all(f"nodes.{node}.model.weight" in stored for node in range(3))


def test_a_path_that_is_refused_ends_the_call_for_all_processes(tmp_path):
    assert works(4, "bad_path", tmp_path, 2).count("fine:") == 4
