"""`membership="live"`: what is refused, in one line each, before anything is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import basegraph as bg
from basegraph.engines.distributed.membership.gloo import own_host, own_store
from basegraph.engines.distributed.membership.lighthouse import require_address
from basegraph.errors import BasegraphError, InvalidArgument
from support.forks import run_python
from support.launch import free_port


def gossip(**options):
    sgd = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
    return bg.Gossip(sgd, **{"membership": "live", "timeout": 5.0, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"membership": "alive"}, "membership='alive': must be one of fixed, live"),
        ({"membership": "fixed", "lighthouse": "http://h:1"}, 'is for membership="live"'),
        ({"topology": bg.topology("ring", n=3)}, "topology='ring': must be a catalogue name"),
        ({"group": 3}, 'group=3: is for membership="fixed"'),
        ({"broadcast": False}, "broadcast=False: "),
        ({}, 'lighthouse=None: membership="live" needs the address of a lighthouse'),
        ({"lighthouse": "https://localhost:3"}, "must be http://HOST:PORT"),
        ({"lighthouse": "localhost:3"}, "must be http://HOST:PORT"),
        ({"lighthouse": "http://localhost"}, "must be http://HOST:PORT"),
        ({"lighthouse": "http://localhost:port"}, "must be http://HOST:PORT"),
    ],
)
def test_arguments_are_refused(options, message, monkeypatch):
    pytest.importorskip("torchft")
    monkeypatch.delenv("TORCHFT_LIGHTHOUSE", raising=False)
    with pytest.raises(InvalidArgument) as refusal:
        gossip(**options)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_address_where_nobody_answers_is_refused():
    pytest.importorskip("torchft")
    with pytest.raises(InvalidArgument, match=r"no lighthouse answers there: .*refused"):
        gossip(lighthouse=f"http://127.0.0.1:{free_port()}")


def test_torchrun_that_restarts_all_nodes_is_refused(monkeypatch):
    pytest.importorskip("torchft")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(InvalidArgument, match="--max-restarts ends all nodes when one is lost"):
        gossip(lighthouse="http://127.0.0.1:1")


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = """
import sys, torch
sys.modules["torchft"] = None
import basegraph.extras
basegraph.extras.is_installed = lambda package: package != "torchft"
import basegraph as bg
sgd = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
try:
    bg.Gossip(sgd, membership="live", lighthouse="http://127.0.0.1:1")
except BaseException as error:
    print(error)
"""
    (tmp_path / "script.py").write_text(code)
    said = run_python(tmp_path / "script.py")
    assert said.stdout == "this needs torchft: pip install 'basegraph[live]'\n"


def test_nodes_listen_on_loopback_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("BASEGRAPH_HOST", raising=False)
    assert own_host("http://127.0.0.1:29510") == "127.0.0.1"
    monkeypatch.setenv("BASEGRAPH_HOST", "192.0.2.1")
    assert own_host("http://127.0.0.1:29510") == "192.0.2.1"
    with pytest.raises(InvalidArgument, match="is not an address of this machine"):
        own_store("192.0.2.1")


def test_the_address_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TORCHFT_LIGHTHOUSE", "http://there:29510/")
    assert require_address(None) == "http://there:29510"
    assert require_address("http://here:29510") == "http://here:29510"


LISTENING = "0A"


def listening(pid: int) -> set[str]:
    """The addresses on which a process listens, as the kernel writes them."""
    files = [file for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    sockets = {str(file.readlink()) for file in files}
    addresses = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == LISTENING and f"socket:[{words[9]}]" in sockets:
                    addresses.add(words[1].partition(":")[0])
    return addresses


@pytest.mark.skipif(not Path("/proc/self/net").is_dir(), reason="needs Linux's /proc")
def test_a_single_live_node_listens_on_loopback_only():
    torchft = pytest.importorskip("torchft.coordination")
    server = torchft.LighthouseServer("127.0.0.1:0", 1, 60_000, 50, 60_000)
    try:
        optimizer = gossip(lighthouse=f"http://127.0.0.1:{server.address().rpartition(':')[2]}")
        assert len(optimizer.members) == 1
        assert listening(os.getpid()) == {"0100007F"}
        with pytest.raises(InvalidArgument, match="is for one optimizer per process"):
            gossip(lighthouse=f"http://127.0.0.1:{server.address().rpartition(':')[2]}")
        with pytest.raises(BasegraphError, match="join"):
            optimizer.join()
        optimizer.step()
        optimizer.consensus()
        assert optimizer.gossip_step == 1
        optimizer.membership.close()
    finally:
        server.shutdown()
