"""What docs/explanation/security.md says of torch: on which addresses its store listens."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

import basegraph

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc")
LISTENS = "0A"


def addresses(port: int) -> set[str]:
    """Where this machine listens on a port, as /proc writes it."""
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            address, number = line.split()[1].split(":")
            if line.split()[3] == LISTENS and int(number, 16) == port:
                addresses.add(address)
    return addresses


def test_a_store_listens_on_all_interfaces_whatever_its_address():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    (address,) = addresses(store.port)
    assert set(address) == {"0"}


def test_a_store_with_a_listener_of_its_own_listens_there_only():
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False,
                          master_listen_fd=server.detach())  # fmt: skip
    store.set("key", "value")
    assert store.get("key") == b"value"
    assert addresses(port) == {socket.inet_aton("127.0.0.1")[::-1].hex().upper()}


def test_nothing_that_is_received_or_read_is_unpickled():
    """Nodes exchange tensors and JSON; only the restricted reader knows of pickles."""
    folder = Path(basegraph.__file__).parent
    wrong = re.compile(r"pickle\.loads?\(|torch\.load\(|_object(_list)?\(|allow_pickle=True")
    files = [path for path in folder.rglob("*.py") if wrong.search(path.read_text("utf-8"))]
    assert files == []
    users = [path for path in folder.rglob("*.py") if "import pickle" in path.read_text("utf-8")]
    assert [os.path.relpath(path, folder) for path in users] == ["data/pickled.py"]
