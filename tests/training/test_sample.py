"""Text from the averaged model of a run."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import basegraph as bg
from basegraph.training._sample import generate
from support.cli import ok, run_here

CONFIG = bg.RunConfig(
    nodes=8, dataset="text", model="gpt-tiny:layers=1,width=16,context=32", epochs=1, validation=0.0
)


class After(nn.Module):
    """Logits that depend on the last token and on how many there are."""

    def __init__(self, size=5):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(size, size)
        self.lengths = []

    def forward(self, tokens):
        self.lengths.append(tokens.shape[1])
        return self.table(tokens)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "text"
    bg.train(CONFIG, run)
    return run


def test_the_likeliest_token_is_taken_at_temperature_zero():
    module = After()
    after = module.table.weight.argmax(dim=1).tolist()
    written = generate(module, [3], 6, None, 0.0, seed=0)
    expected = [after[3]]
    while len(expected) < 6:
        expected.append(after[expected[-1]])
    assert written == expected
    assert generate(module, [3], 6, None, 0.0, seed=1) == expected


def test_the_window_is_cut_to_the_context():
    module = After()
    generate(module, [0, 1, 2], 5, 4, 1.0, seed=0)
    assert module.lengths == [3, 4, 4, 4, 4]


def test_draws_follow_the_models_shares():
    module = After()
    drawn = [generate(module, [2], 1, None, 1.0, seed=seed)[0] for seed in range(2000)]
    shares = torch.softmax(module.table.weight[2], dim=0)
    counts = torch.bincount(torch.tensor(drawn), minlength=5) / len(drawn)
    assert torch.allclose(counts, shares.detach(), atol=0.05)


def test_draws_in_pieces_are_those_of_one_call():
    from basegraph.data.philox import FEW_NUMBERS

    module = After()
    count = 2 * FEW_NUMBERS + 3
    written = generate(module, [2], count, None, 1.0, seed=5)
    words = np.random.Philox(key=5 + (8 << 64)).random_raw(count)
    tokens = [2]
    for word in words:
        shares = torch.softmax(module.table.weight[tokens[-1]].double(), dim=0).cumsum(dim=0)
        tokens.append(int((shares <= (int(word) >> 11) / 2**53 * shares[-1]).sum()))
    assert written == tokens[1:]


def test_a_pure_function_of_the_seed(run):
    first, again, other = (
        bg.sample(run, prompt="To be", tokens=20, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first.tokens != other.tokens
    assert len(first.tokens) == 20
    assert bytes(first.tokens).decode("utf-8", "replace") == first.text


def test_the_averaged_model_or_a_nodes_writes(run):
    module = bg.models.build(CONFIG.model, (32,), None, 0, 256)
    module.load_state_dict(bg.export(run, node=1))
    expected = generate(module, [84], 12, 32, 0.8, 0)
    assert bg.sample(run, prompt="T", tokens=12, node=1).tokens == expected


def test_a_module_of_ones_own(tmp_path):
    class Next(nn.Sequential):
        pass

    module = Next(nn.Embedding(256, 4), nn.Linear(4, 256))
    bg.train(CONFIG, tmp_path / "run", dataset=bg.data.load("text", context=8), module=module)
    given = {"prompt": "x", "tokens": 5}
    written = bg.sample(tmp_path / "run", module=module, context=8, **given)
    assert len(written.tokens) == 5
    with pytest.raises(bg.InvalidArgument, match="model='own: Next': was passed from Python"):
        bg.sample(tmp_path / "run", **given)
    with pytest.raises(bg.InvalidArgument, match="module='Linear': is not the model of the run"):
        bg.sample(tmp_path / "run", module=nn.Linear(4, 4), **given)


def test_a_text_under_a_name_of_its_own_is_text(tmp_path):
    (tmp_path / "birds.txt").write_text("All about birds. " * 90)
    dataset = bg.text(tmp_path / "birds.txt", context=8, name="mine")
    bg.train(CONFIG, tmp_path / "run", dataset=dataset)
    assert len(bg.sample(tmp_path / "run", prompt="All", tokens=5).tokens) == 5


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"seed": 2**64}, "seed=18446744073709551616: must be"),
        ({"seed": 2**64, "tokens": 300}, "seed=18446744073709551616: must be"),
        ({"module": 5}, "module=5: must be a torch.nn.Module"),
        ({"algorithm": "dsgd"}, "algorithm='dsgd': must be a Method"),
        ({"context": 33}, "context=33: must be at most the model's, 32"),
        ({"temperature": True}, "temperature=True: must be a number"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(run, arguments, complaint):
    with pytest.raises(bg.InvalidArgument, match=f"^{complaint}"):
        bg.sample(run, **{"tokens": 4, **arguments})


def test_the_command(run):
    flags = ["--prompt", "To be", "--tokens", "30", "--temperature", "0.5", "--seed", "3"]
    printed = ok("sample", run, *flags)
    written = bg.sample(run, prompt="To be", tokens=30, temperature=0.5, seed=3)
    assert printed == f"To be{written.text}\n"
    answer = json.loads(ok("sample", run, *flags, "--json"))
    assert answer["tokens"] == written.tokens
    assert (answer["model"], answer["seed"]) == ("averaged model", 3)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--tokens", "0"], "--tokens='0': must be an integer ≥ 1"),
        (["--temperature", "-1"], "--temperature=-1.0: must be a number ≥ 0"),
        (["--prompt", ""], "--prompt='': must not be empty"),
        (["--node", "9"], "--node=9: "),
    ],
)
def test_what_cannot_be_done_is_one_line(run, flags, complaint):
    done = run_here("sample", run, *flags)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_tokens_of_the_tokenizer_are_written(tmp_path):
    """A model may know more than there are bytes."""
    wide = bg.RunConfig(**{**vars(CONFIG), "model": f"{CONFIG.model},vocabulary=1000"})
    bg.train(wide, tmp_path / "run")
    written = bg.sample(tmp_path / "run", tokens=300, temperature=5.0)
    assert max(written.tokens) < 256
    assert len(set(written.tokens)) > 50


def test_prompts_of_any_bytes(run):
    """A byte of a command line that is not UTF-8 comes as half a surrogate pair."""
    written = bg.sample(run, prompt="\udcff\udcfe", tokens=3)
    assert written.prompt == "��"
    with pytest.raises(bg.InvalidArgument, match=r"prompt=.*: must be text"):
        bg.sample(run, prompt="\ud800", tokens=3)


def words_only(path):
    """A tokenizer that has no token for white space."""
    made = Tokenizer(models.WordLevel({"<unk>": 0, "The": 1, "king": 2}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))


def test_the_default_prompt_has_tokens(tmp_path):
    words_only(tmp_path / "words.json")
    config = bg.RunConfig(**{**vars(CONFIG), "tokenizer": str(tmp_path / "words.json")})
    bg.train(config, tmp_path / "run")
    assert bg.sample(tmp_path / "run", tokens=3).prompt == "The"
    done = run_here("sample", tmp_path / "run", "--prompt", "\n")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "must not be empty: the first generated token needs one before it\n"
    )
    (tmp_path / "words.json").write_text((tmp_path / "words.json").read_text() + "\n")
    with pytest.raises(bg.InvalidArgument, match=r"was trained with another .*words\.json"):
        bg.sample(tmp_path / "run", tokens=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": "hot"},
        {"temperature": None},
        {"context": -3},
        {"context": 0},
        {"prompt": 5},
    ],
)
def test_wrong_values_from_python(run, wrong):
    (name,) = wrong
    with pytest.raises(bg.InvalidArgument, match=f"{name}=.*must be"):
        bg.sample(run, **wrong)


def test_a_record_that_is_broken_is_done_without(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "provenance.json").write_text('{"measured": {"context": "x", "tokenizer": 1}}')
    assert bg.sample(copy, tokens=3) == bg.sample(run, tokens=3)
    (copy / "provenance.json").write_text('{"measured": null}')
    assert bg.sample(copy, tokens=3, temperature=np.float32(0.8)).text


def test_the_coldest_draws_are_the_likeliest_tokens():
    module = After()
    cold = generate(module, [3], 6, None, 1e-320, seed=0)
    assert cold == generate(module, [3], 6, None, 0.0, seed=0)


def test_only_runs_on_text_write(tmp_path):
    bg.train(bg.RunConfig(nodes=2, epochs=1), tmp_path / "digits")
    done = run_here("sample", tmp_path / "digits")
    assert done.returncode == 2
    assert "was trained on digits, which is not text" in done.stderr
    assert run_here("sample", tmp_path).returncode == 2
