"""Options of methods: in specs, in the fields of a run, and of methods that somebody adds."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

import basegraph as bg
from basegraph.algorithms import catalog
from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from basegraph.algorithms.method import Method
from basegraph.cli.train import merged
from basegraph.specs import Entry
from basegraph.training import problem as replica
from basegraph.training.config import RunConfig


class Clipped(NamedTuple):
    """u"""


def clipped(bound: float = 1.0, twice: bool = False) -> Method:
    """A method as CONTRIBUTING describes it: DSGD with gradients clipped to ±bound."""
    if not bound > 0:
        raise bg.InvalidArgument("bound", bound, "must be a number above 0")

    def step(x, grad, state, lr, mix):
        return mix(x - lr * grad.clip(-bound, bound) * (2 if twice else 1)), state

    return Method("clipped", lambda x: Clipped(), step)


@pytest.fixture
def with_clipped(monkeypatch):
    more = MappingProxyType({**ALGORITHMS, "clipped": Entry("clipped", clipped, typed=True)})
    for module in (catalog, replica):
        monkeypatch.setattr(module, "ALGORITHMS", more)


def moved(method):
    x, grad = np.zeros((1, 2)), np.array([[-9.0, 3.0]])
    return method.step(x, grad, method.init(x), 1.0, lambda v: v)[0].tolist()


@pytest.mark.usefixtures("with_clipped")
def test_a_method_has_options_of_its_own():
    assert moved(algorithm("clipped", bound=7.0)) == [[7.0, -3.0]]
    assert moved(algorithm("clipped:bound=2,twice=true")) == [[4.0, -4.0]]
    for spec, complaint in (
        ("clipped:bound=-1", "bound=-1.0: must be a number above 0"),
        ("clipped:bound=wide", "bound='wide': must be a number"),
        ("clipped:twice=2", "twice=2: must be True or False"),
    ):
        with pytest.raises(bg.InvalidArgument, match=complaint):
            RunConfig(algorithm=spec)
    config = RunConfig(algorithm="clipped:twice=true,bound=7")
    assert config.algorithm == "clipped:bound=7.0,twice=true"
    method, _ = replica.make_method(config, bg.topology("ring", n=3))
    assert moved(method) == [[14.0, -6.0]]


def test_options_that_are_fields_are_one_configuration():
    spec = RunConfig(algorithm="dsgdm:momentum=0.5,nesterov=true")
    assert spec == RunConfig(algorithm="dsgdm", momentum=0.5, nesterov=True)
    assert spec == RunConfig(algorithm="dsgdm:momentum=0.5,nesterov=true", momentum=0.5)
    assert RunConfig(algorithm="d2:damping=auto") == RunConfig(algorithm="d2", damping="auto")
    assert RunConfig(algorithm="d2:damping=0.5", damping=0.5).damping == "0.5"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"algorithm": "dsgdm:momentum=0.5", "momentum": 0.8},
            "momentum=0.8: conflicts with algorithm='dsgdm:momentum=0.5'",
        ),
        ({"algorithm": "dsgdm:momentum=1.5"}, "momentum=1.5: must be a number in"),
        ({"algorithm": "dsgdm:momentum=much"}, "momentum='much': must be a number"),
        ({"algorithm": "dsgd:momentum=0.5"}, "option of dsgd='momentum'"),
        ({"algorithm": "adamw:momentum=0.5"}, "option of adamw='momentum'"),
        ({"algorithm": "adamw:beta2=1"}, r"beta2=1\.0: must be a number in \[0, 1\)"),
        ({"algorithm": "adamw:eps=0"}, r"eps=0\.0: must be a number above 0"),
        ({"algorithm": "adamw:order=both"}, "order='both': must be adapt-then-combine or"),
        ({"algorithm": "d2:damping=2"}, "damping='2.0': must be none, auto or in"),
    ],
)
def test_options_in_a_run_are_refused(fields, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        RunConfig(**fields)


def test_flags_win_over_a_file_as_options_of_the_method_too():
    file = {"algorithm": "dsgdm", "momentum": 0.8, "lr": 0.2}
    assert merged(file, {"algorithm": "dsgdm:momentum=0.5"}) == {
        "algorithm": "dsgdm:momentum=0.5",
        "lr": 0.2,
    }
    assert merged(file, {"algorithm": "dsgd"}) == {**file, "algorithm": "dsgd"}
    with pytest.raises(bg.InvalidArgument, match=r"momentum=0\.9: is given in the spec"):
        merged({}, {"algorithm": "dsgdm:momentum=0.5", "momentum": 0.9})


@pytest.mark.parametrize("field", [{"momentum": 0.5}, {"nesterov": True}])
def test_adamw_has_no_momentum(field):
    (name,) = field
    with pytest.raises(bg.InvalidArgument, match=f"{name}=.*: adamw has no such option"):
        replica.make_method(RunConfig(algorithm="adamw", **field), bg.topology("ring", n=3))
