"""A model's `ModelMeta` holds what mteb asks of a submission, wherever some file says it."""

import importlib
import re
import warnings

import mteb
import pytest
from huggingface_hub.errors import HfHubHTTPError
from mteb.models.model_meta import ModelMeta, ScoringFunction

import mteb_longembed as longembed
from mteb_longembed.encoders.strategies import ALGORITHM

#: The library of requests of this huggingface_hub: httpx2 from version 2 on, httpx before.
HTTP = importlib.import_module(HfHubHTTPError.__mro__[1].__module__.partition(".")[0])
#: What a submission must say; of training data only mteb's own entry of a base can know.
WANTED = {
    "name", "revision", "release_date", "languages", "n_parameters", "n_embedding_parameters", "memory_usage_mb",
    "max_tokens", "embed_dim", "license", "open_weights", "framework", "reference", "similarity_fn_name",
    "use_instructions",
}  # fmt: skip


def test_a_name_on_a_base_that_mteb_knows_is_complete(online) -> None:
    meta = mteb.get_model_meta("e5-base+pi@1k")
    e5 = mteb.get_model_meta("intfloat/e5-base-v2")
    assert meta.name != meta.adapted_from
    assert not [name for name in WANTED if getattr(meta, name) in (None, [])]
    assert (meta.n_parameters, meta.license, meta.languages) == (e5.n_parameters, e5.license, e5.languages)
    assert meta.training_datasets == e5.training_datasets is not None


def test_an_unlisted_base_is_described_by_its_card(online) -> None:
    meta = mteb.get_model_meta("org/unlisted+pi@128")
    assert (meta.license, meta.languages) == ("mit", ["deu-Latn", "eng-Latn"])
    assert meta.similarity_fn_name == ScoringFunction.DOT_PRODUCT
    assert (meta.name, meta.max_tokens) == ("org/unlisted", 128)
    assert re.fullmatch("[0-9a-f]{40}", meta.revision)
    assert meta.experiment_kwargs == {"strategy": "pi", "target_len": 128, "algorithm": ALGORITHM}
    assert meta.reference == "https://huggingface.co/org/unlisted"


def test_a_pushed_model_names_a_base_that_mteb_knows_and_has_a_page_of_its_own(online) -> None:
    longembed.load("e5-base+pi@1k", device="cpu").push_to_hub("me/e5-pi", token="hf_of_a_test")
    meta = mteb.get_model_meta("me/e5-pi", fetch_from_hf=True)
    assert (meta.name, meta.adapted_from) == ("me/e5-pi", "intfloat/e5-base-v2")
    assert meta.reference == "https://huggingface.co/me/e5-pi"


def test_several_vectors_are_compared_by_the_best(online, tmp_path) -> None:
    longembed.load("org/unlisted+pi@64:vectors=8", device="cpu").save_pretrained(str(tmp_path / "several"))
    for name in ("org/unlisted+pi@64:vectors=8", str(tmp_path / "several")):
        meta = mteb.get_model_meta(name)
        assert (meta.similarity_fn_name, meta.model_type) == (ScoringFunction.MAX_SIM, ["late-interaction"])


def test_a_look_up_of_facts_that_fails_ends_no_run(online, monkeypatch) -> None:
    def drop(*args: object, **kwargs: object) -> None:
        raise HTTP.RemoteProtocolError("Server disconnected without sending a response.")

    monkeypatch.setattr(ModelMeta, "from_hub", classmethod(drop))
    with pytest.warns(
        UserWarning,
        match=r"^licence and languages of org/unlisted stay unknown, .*\(RemoteProtocolError: Server disconnected",
    ):
        meta = mteb.get_model_meta("org/unlisted+rp@64")
    assert max(meta.embed_dim) == 32 and meta.license is None


def test_old_names_that_mteb_uses_are_not_told_to_our_users(online) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        ModelMeta.from_sentence_transformer_model(longembed.load("mini-ape"))


@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_saved_model_on_the_hub_is_known_by_its_plain_name(online, tmp_path, has_metadata, caplog) -> None:
    folder = tmp_path / "saved"
    longembed.load("mini-rope+se@2k", device="cpu").save_pretrained(str(folder))
    if not has_metadata:
        (folder / "README.md").unlink()
    name = f"me/se-{has_metadata}"
    online.add(name, folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        meta = mteb.get_model_meta(name)
        assert meta.to_dict() == mteb.get_model_meta(name, fetch_from_hf=True).to_dict()
        assert mteb.get_model(name, device="cpu").mteb_model_meta.name == meta.name == name
    assert meta.max_tokens == 2048
    assert not [one for one in caplog.records if one.levelname == "WARNING"]
    sentences = {str(one.message) for one in told if issubclass(one.category, UserWarning)}
    assert all(
        re.fullmatch(r"licence and languages of me/se-\w+ stay unknown, [^\n]+\.", one) for one in sentences
    )
    assert bool(sentences) != has_metadata


def test_look_ups_of_mteb_s_own_ask_the_hub_for_no_name_that_it_does_not_know(online) -> None:
    with pytest.raises(KeyError, match="not found in MTEB registry"):
        mteb.get_model_meta("org/unlisted", fetch_from_hf=False)
    assert not online.requests
    with pytest.raises(KeyError, match="not found in MTEB registry"):
        mteb.get_model_meta("org/unlisted")  # a model that we do not extend


@pytest.mark.parametrize(
    "fault",
    [
        TypeError("string indices must be integers, not 'str'"),
        ValueError("a\nb\n\nc."),
        KeyError("text_config"),
    ],
)
def test_whatever_fails_in_a_look_up_of_facts_is_told_in_one_sentence(online, monkeypatch, fault) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise fault

    monkeypatch.setattr(ModelMeta, "from_hub", classmethod(fail))
    with pytest.warns(UserWarning, match=r"^licence and languages of org/unlisted stay unknown, [^\n]*\)\.$"):
        mteb.get_model_meta("org/unlisted+rp@64")
