"""What the nodes of a quorum decide, all alike."""

from __future__ import annotations

from basegraph.engines.distributed.membership.meeting import (
    Participant,
    decide,
    description,
    is_early,
    is_unchanged,
)


def person(name, *, step=0, epoch=0, members=(), facts=None, **said):
    data = description(epoch=epoch, members=list(members), facts=facts or {}, **said)
    return Participant(name, f"store of {name}", step, data)


def test_a_job_is_founded_with_the_model_of_one():
    meeting = decide("key", [person("a"), person("b", step=4), person("c", step=4)])
    assert (meeting.changed, meeting.epoch, meeting.step) == (True, 1, 4)
    assert (meeting.source, meeting.keeps) == (1, [False, True, False])
    assert (meeting.members, meeting.store) == (["a", "b", "c"], "store of a")


def test_nothing_changes_while_all_are_there_and_connected():
    members = ["a", "b"]
    people = [person(name, epoch=3, members=members, step=9) for name in members]
    assert is_unchanged(people)
    assert not decide("key", people).changed
    assert decide("key", people).epoch == 3
    assert decide("key", [people[0], person("b", epoch=3, members=members, broken=True)]).changed
    assert decide("key", people[:1]).changed


def test_survivors_keep_their_models_and_the_largest_step():
    members = ["a", "b", "c"]
    people = [person("a", epoch=3, members=members, step=9)]
    people += [person("c", epoch=3, members=members, step=10, broken=True)]
    meeting = decide("key", people)
    assert (meeting.keeps, meeting.step, meeting.epoch) == ([True, True], 10, 4)
    assert meeting.before == members


def test_a_node_that_was_left_behind_does_not_keep_its_model():
    """However many steps it has made alone, or many such nodes there are."""
    late = [person(name, epoch=3, members=["a", "b", "c"], step=50) for name in ("a", "b")]
    meeting = decide("key", [*late, person("c", epoch=4, members=["c"], step=12)])
    assert (meeting.keeps, meeting.source, meeting.step) == ([False, False, True], 2, 12)


def test_a_node_with_other_settings_is_refused():
    old = person("b", epoch=2, members=["b"], facts={"dtype": "1", "order": "2"})
    new = person("a", facts={"dtype": "1", "order": "3", "more": "4"})
    meeting = decide("key", [new, old])
    assert meeting.refused == {"a": "order"}
    assert (meeting.members, meeting.store, meeting.source) == (["b"], "store of b", 0)
    assert decide("key", [person("a", facts={**old.data["facts"], "x": ""}), old]).refused == {
        "a": "x"
    }


def test_first_nodes_wait_for_those_that_are_expected():
    first = person("a", expected=3, starting=True)
    assert is_early([first, person("b", expected=3)])
    assert not is_early([first, person("b"), person("c")])
    assert not is_early([person("a", expected=3), person("b", expected=3)])
    assert not is_early([first, person("b", epoch=2, members=["b"])])  # a job that runs


def test_after_a_restart_of_the_lighthouse_nobody_is_lost_for_being_late():
    members = ["a", "b"]
    alone = person("a", epoch=3, members=members, fresh=True)
    assert is_early([alone])
    assert not is_early([alone, person("b", epoch=3, members=members)])
    assert not is_early([person("a", epoch=3, members=members)])
