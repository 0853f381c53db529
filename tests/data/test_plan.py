from __future__ import annotations

import numpy as np
import pytest
import torch

from basegraph.data import philox
from basegraph.data.augment import gather, normalization
from basegraph.data.catalog import load
from basegraph.data.philox import raw_words
from basegraph.data.plan import PADDING, SamplePlanner

PARTS = np.arange(3 * 50).reshape(3, 50)
ALL = ("crop", "flip", "erase")


def planner(**changes):
    settings = {"image": (8, 8), "augmentations": ALL, **changes}
    return SamplePlanner(PARTS, 8, 5, **settings)


def test_any_step_alone_is_what_the_whole_plan_says():
    whole = planner().steps(0, 40)
    for first, last in ((0, 1), (6, 7), (17, 29), (39, 40)):
        part = planner().steps(first, last)
        for a, b in zip(part, whole, strict=True):
            assert np.array_equal(a, b[first:last])


def test_pieces_of_one_pass_are_what_the_whole_plan_says():
    """With equally many steps each, of which several belong to one pass over the samples."""
    whole, pieces = planner().steps(0, 40).sample, planner()
    for first in range(0, 40, 2):
        assert np.array_equal(pieces.steps(first, first + 2).sample, whole[first : first + 2])


@pytest.mark.parametrize("count", [1, 2, 4, 7, 32, philox.FEW_NUMBERS, philox.FEW_NUMBERS + 1])
def test_many_generators_at_once_give_the_bits_of_numpys(count):
    draws = np.random.default_rng(count)
    for seed, start in ((0, 0), (5, 10**12), (2**63 - 1, 2**62)):
        streams = np.append(draws.integers(0, 2**50, 5), [0, 2**62])
        counters = np.append(draws.integers(0, 2**40, 5), [0, 2**62])
        expected = [
            np.random.Philox(key=[seed, stream], counter=[start, counter, 0, 0]).random_raw(count)
            for stream, counter in zip(streams, counters, strict=True)
        ]
        words = raw_words(seed, streams, counters, count, start)
        assert np.array_equal(words, np.stack(expected))


def test_more_generators_than_are_computed_at_a_time():
    streams = np.arange(2 * philox._CHUNK + 5)
    words = raw_words(3, streams, streams[::-1], 5)
    for i in (0, philox._CHUNK - 1, philox._CHUNK, len(streams) - 1):
        one = np.random.Philox(key=[3, i], counter=[0, streams[-1 - i], 0, 0])
        assert np.array_equal(words[i], one.random_raw(5))


@pytest.mark.parametrize("size", [1, 3, 8, 50, philox.FEW_NUMBERS + 10])
def test_the_plan_is_what_one_generator_per_node_and_pass_gives(size):
    """Written out: runs that were stopped with an earlier version see the same when they go on."""
    nodes, batch, seed, steps = 4, 8, 11, 9
    parts = np.random.default_rng(0).permutation(nodes * size).reshape(nodes, size)
    plan = SamplePlanner(parts, batch, seed, image=(8, 8), augmentations=("crop", "flip")).steps(
        0, steps
    )
    for node in range(nodes):
        stream, crops, flips = [], [], []
        for turn in range(-(-steps * batch // size)):
            generator = np.random.Philox(key=[seed, (node << 8) + 3], counter=[0, turn, 0, 0])
            stream.extend(parts[node][np.argsort(generator.random_raw(size), kind="stable")])
        for place in range(steps * batch):
            generator = np.random.Philox(key=[seed, (node << 8) + 4], counter=[place, 0, 0, 0])
            words = [int(word) for word in generator.random_raw(2)]
            crops.append([words[0] % 2**16 % 9, (words[0] >> 16) % 2**16 % 9])
            flips.append((words[0] >> 32) % 2**16 % 2 == 1)
        shape = steps, batch
        assert np.array_equal(plan.sample[:, node], np.reshape(stream[: steps * batch], shape))
        assert np.array_equal(plan.crop[:, node], np.reshape(crops, (*shape, 2)))
        assert np.array_equal(plan.flip[:, node], np.reshape(flips, shape))


def test_few_samples_per_node_need_no_generator_each(monkeypatch):
    """Making a generator per node and pass took most of the time where nodes hold few samples."""
    made = []
    monkeypatch.setattr(np.random, "Philox", lambda *args, **kwargs: made.append(args))
    plan = SamplePlanner(np.arange(300)[:, None], 32, 5, image=(8, 8)).steps(0, 4)
    assert plan.sample.shape == (4, 300, 32)
    assert not made


def test_some_nodes_see_what_they_see_among_all():
    whole = planner().steps(0, 9)
    one = planner()
    for nodes in ([1], [2, 0], [1]):
        part = one.steps(3, 9, nodes)
        for a, b in zip(part, whole, strict=True):
            assert np.array_equal(a, b[3:][:, nodes])


def test_every_pass_shows_every_sample_once():
    stream = planner().steps(0, 50).sample.transpose(1, 0, 2).reshape(3, -1)
    for node in range(3):
        passes = stream[node][:400].reshape(8, 50)
        for seen in passes:
            assert sorted(seen) == PARTS[node].tolist()
        assert not np.array_equal(passes[0], passes[1])


def test_nodes_and_seeds_have_streams_of_their_own():
    same = np.zeros((2, 50), dtype=np.int64) + np.arange(50)
    one = SamplePlanner(same, 8, 5, image=(8, 8), augmentations=ALL).steps(0, 6)
    assert not np.array_equal(one.sample[:, 0], one.sample[:, 1])
    assert not np.array_equal(one.crop[:, 0], one.crop[:, 1])
    other = SamplePlanner(same, 8, 6, image=(8, 8), augmentations=ALL).steps(0, 6)
    assert not np.array_equal(one.sample, other.sample)


def test_draws_have_the_right_range():
    plan = planner().steps(0, 400)
    assert set(np.unique(plan.crop)) == set(range(2 * PADDING + 1))
    assert 0.45 < plan.flip.mean() < 0.55
    top, left, height, width = np.moveaxis(plan.erase, -1, 0)
    erased = height > 0
    assert 0.35 < erased.mean() < 0.55
    assert ((top + height)[erased] <= 8).all()
    assert ((left + width)[erased] <= 8).all()
    assert (width[~erased] == 0).all()


def test_gather_is_pad_crop_flip_erase():
    """Against torchvision's definitions, written out for one image at a time."""
    images = torch.randint(0, 256, (150, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    images = images.to(torch.uint8)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.25])
    plan = planner().steps(0, 3)
    parts = [torch.as_tensor(part) for part in plan]
    sample, crop, flip, erase = parts
    samples = gather(images, sample, mean, std, crop, flip, erase)
    assert samples.shape == (3, 3, 8, 3, 8, 8)
    for at in np.ndindex(3, 3, 8):
        image = (images[sample[at]].float() / 255 - mean[:, None, None]) / std[:, None, None]
        padded = torch.nn.functional.pad(image, [PADDING] * 4)
        dy, dx = crop[at].tolist()
        expected = padded[:, dy : dy + 8, dx : dx + 8]
        if flip[at]:
            expected = expected.flip(2)
        top, left, height, width = erase[at].tolist()
        expected = expected.clone()
        expected[:, top : top + height, left : left + width] = 0
        assert torch.allclose(samples[at], expected, atol=1e-6)


def test_no_augmentation_is_just_the_image():
    images = torch.full((150, 1, 8, 8), 51, dtype=torch.uint8)
    plan = planner(augmentations=()).steps(0, 1)
    assert plan.crop is plan.flip is plan.erase is None
    samples = gather(images, torch.as_tensor(plan.sample), torch.zeros(1), torch.ones(1))
    assert torch.allclose(samples, torch.tensor(0.2))


@pytest.mark.parametrize(("padding", "outside"), [("zero", 0.0), ("black", -1.0)])
def test_padding_is_zero_after_normalization_or_before(padding, outside):
    images = torch.full((1, 1, 8, 8), 255, dtype=torch.uint8)
    half = torch.full((1,), 0.5)
    crop = torch.zeros(1, 2, dtype=torch.int64)
    samples = gather(images, torch.tensor([0]), half, half, crop=crop, padding=padding)
    assert (samples[0, 0, :PADDING] == outside).all()
    assert (samples[0, 0, PADDING:, PADDING:] == 1).all()


def test_normalizations():
    digits = load("digits")
    for how, expected in (("half", (0.5, 0.5)), ("none", (0.0, 1.0))):
        assert [float(value) for value in normalization(digits, how)] == list(expected)
    mean, std = digits.statistics()
    assert [v.tolist() for v in normalization(digits, "dataset")] == [mean.tolist(), std.tolist()]
