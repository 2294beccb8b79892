"""Exported checkpoints need none of our code and embed as ours do with logn=off, or are refused."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from mteb_longembed.cli import main
from mteb_longembed.encoders.export import export
from mteb_longembed.encoders.load import extend
from mteb_longembed.errors import IncompatibleError, InputError
from tests import tiny
from tests.encoders.test_rotary import GQA, LINEAR, LO, LT

LONG = [tiny.text(n) for n in (LO + 1, 2 * LO + 3, LT)]
MODELS = {
    "bert": ("bert", {}),
    "mistral": ("mistral", {**GQA, "sliding_window": LO}),
    "linear": ("llama", {**GQA, "rope_parameters": LINEAR}),
}


def base(name: str, folder: Path) -> str:
    kind, config = MODELS[name]
    return str(tiny.saved(kind, folder, **config))


def test_a_model_that_stock_code_loaded_from_our_folder_is_exported_with_its_card(tmp_path):
    extend(base("bert", tmp_path), "pi", LT, LO, device="cpu").save_pretrained(str(tmp_path / "saved"))
    export(SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True), tmp_path / "plain")
    assert f"extended to {LT} tokens by the strategy `pi`" in (tmp_path / "plain" / "README.md").read_text()


def test_what_is_lost_is_said_and_stands_in_the_model_card(tmp_path, capsys):
    folder = base("bert", tmp_path)
    # trained_len as a name gives it: the folder's own 16 tokens
    assert main(["export", f"{folder}+pi@{LT}", str(tmp_path / "plain")]) == 0
    out = capsys.readouterr().out
    card = (tmp_path / "plain" / "README.md").read_text()
    for sentence in ("inputs of at most 16 tokens are extended like longer ones", "with logn=off"):
        assert sentence in out and sentence in card


def test_the_given_model_stays_as_it_is(tmp_path):
    ours = extend(base("mistral", tmp_path), "ntk", LT, LO, device="cpu")
    original = ours.encode(LONG)
    export(ours, tmp_path / "plain")
    assert np.array_equal(ours.encode(LONG), original)


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("bert", "pcw", "cuts windows while it runs; use pi, ntk or rp"),
        ("bert", "gp", "depend on each document's length; use gp:factor=target"),
        ("mistral", "se", "acts on each document while it runs; use ntk, pi, yarn"),
        ("mistral", "gp", "acts on each document while it runs"),
        ("linear", "yarn", "rope scaling of type linear has no setting in transformers"),
    ],
)
def test_what_would_be_another_method_is_refused(name, key, message, tmp_path):
    ours = extend(base(name, tmp_path), key, LT, LO, device="cpu")
    with pytest.raises(IncompatibleError, match=message):
        export(ours, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_several_vectors_and_a_folder_that_is_not_empty_get_one_sentence(tmp_path):
    folder = base("bert", tmp_path)
    with pytest.raises(IncompatibleError, match="several vectors a document cannot be a plain checkpoint"):
        export(f"{folder}+pi@{LT}:vectors=8", tmp_path / "plain")
    with pytest.raises(InputError, match="must be empty or not exist"):
        export(f"{folder}+pi@{LT}", folder)


def test_what_is_no_transformer_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = StaticEmbedding(tiny.tokenizer().backend_tokenizer, embedding_dim=8)
    with pytest.raises(IncompatibleError, match="got a StaticEmbedding"):
        export(SentenceTransformer(modules=[words], device="cpu"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
