"""Nodes that wake up too late change nothing; nodes that are all killed lose few steps."""

from __future__ import annotations

import re

from safetensors.torch import load_file

from support.forks import run_script


def test_a_hung_node_wakes_up_and_then_all_are_killed(tmp_path):
    run_script("fencing.py", tmp_path)
    said = {path.name: path.read_text() for path in tmp_path.glob("?-?")}
    assert "Traceback" not in "".join(said.values())
    for rank in (0, 1):
        assert re.search(f"; saved node {rank} after [78] steps", said[f"1-{rank}"])
        assert re.search("begins at step [78] with ", said[f"2-{rank}"])
    job = tmp_path / "job"
    assert f"; not saved: node 2 belongs to start 1 of the job; {job} is at start 2" in said["1-2"]
    assert "from the average of 2 of 3 nodes" in said["2-0"]
    models = [load_file(job / f"node-{node}.safetensors")["x"][0].item() for node in (0, 1)]
    expected = f"begins at step 30 with {sum(models) / 2:g}"
    for rank in (0, 1):
        assert expected in said[f"3-{rank}"]
    assert "restarted after step 30 from the average of 2 of 2 nodes" in said["3-0"]
    assert "left out" not in said["3-0"]
