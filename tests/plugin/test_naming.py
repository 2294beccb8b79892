"""Results are found by any spelling of a name, and a saved folder has its own name however it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import mteb
import pytest
from mteb.models.model_meta import ModelMeta
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from tests import tiny
from tests.limits import same_vectors

from .results import write_results

NAME = "mteb-longembed/mini-rope+ntk@2048"


@pytest.mark.parametrize("name", ["mini-rope+ntk@2048", "mini-rope+ntk@2k:short=scale", NAME])
def test_results_are_found_by_any_spelling_of_a_name(tmp_path: Path, name: str) -> None:
    write_results(tmp_path, NAME, {"LongEmbedPasskey": 0.5})
    found = mteb.ResultCache(tmp_path).load_results(models=[name], include_remote=False)
    assert [result.model_name for result in found.model_results] == [NAME]
    assert mteb.ResultCache(tmp_path).get_cache_paths([name, "org/other"], include_remote=False)


def test_results_of_another_model_are_not_found(tmp_path: Path) -> None:
    write_results(tmp_path, NAME, {"LongEmbedPasskey": 0.5})
    for name in ("mini-rope+ntk@1024", "mini-rope+pi@2048", "org/other"):
        assert (
            mteb.ResultCache(tmp_path).load_results(models=[name], include_remote=False).model_results == []
        )


def test_a_name_that_breaks_a_rule_is_told_instead_of_finding_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'ntk'"):
        mteb.ResultCache(tmp_path).load_results(models=["mini-rope+nkt@2048"], include_remote=False)


def test_results_under_a_name_of_an_earlier_version_are_found_as_they_stand(tmp_path: Path) -> None:
    write_results(tmp_path, "org/base+gone@2048,x=1", {"LongEmbedPasskey": 0.5})
    found = mteb.ResultCache(tmp_path).load_results(models=["org/base+gone@2048,x=1"], include_remote=False)
    assert len(found.model_results) == 1


def test_a_saved_folder_has_its_name_when_sentence_transformers_itself_loads_it(tmp_path: Path) -> None:
    base = tiny.sentence_transformer("bert", tmp_path / "base")
    base.model_card_data.model_name = "tiny/bert"
    extended = longembed.extend(base, "pi", target_len=64)
    extended.save_pretrained(str(tmp_path / "mine"), create_model_card=False)
    ours = longembed.load(tmp_path / "mine", device="cpu")
    theirs = SentenceTransformer(str(tmp_path / "mine"), trust_remote_code=True, device="cpu")
    assert not isinstance(theirs, LongSentenceTransformer)
    meta = ModelMeta.from_sentence_transformer_model(theirs)
    expected = ModelMeta.from_sentence_transformer_model(ours)
    assert (meta.name, meta.revision) == (expected.name, expected.revision)
    assert (meta.name, meta.revision) == ("local/mine+pi@64", ours.resolved.revision)
    same_vectors(theirs.encode([tiny.text(40)]), ours.encode([tiny.text(40)]))


def test_a_model_that_is_not_ours_keeps_its_name(tmp_path: Path) -> None:
    base = tiny.sentence_transformer("bert", tmp_path / "base")
    base.model_card_data.model_name = "tiny/bert"
    assert ModelMeta.from_sentence_transformer_model(base).name == "tiny/bert"


def test_embeddings_are_cut_to_the_dimensions_asked_for(tmp_path: Path) -> None:
    meta = mteb.get_model_meta("mini-ape+pi@1024")
    whole = meta.to_dict()["embed_dim"]
    encoder = mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=16)
    assert encoder.mteb_model_meta.embed_dim == 16
    assert encoder.model.encode(["one"]).shape == (1, 16)
    assert mteb.get_model("mini-ape+pi@1024", device="cpu").model.encode(["one"]).shape == (1, whole)
    for wrong in (0, whole + 1):
        with pytest.raises(InputError, match=f"embed_dim must be 1 to {whole} dimensions, got {wrong}"):
            mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=wrong)


def test_results_at_another_width_are_kept_apart(tmp_path: Path) -> None:
    encoder = mteb.get_model("mini-ape+none", device="cpu", embed_dim=16)
    encoder.model.store = None
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    mteb.evaluate(encoder, [task], cache=mteb.ResultCache(tmp_path), show_progress_bar=False)
    [written] = tmp_path.rglob("LongEmbedPasskey.json")
    assert "experiments" in written.parts
    assert json.loads((written.parent / "model_meta.json").read_text())["embed_dim"] == 16
