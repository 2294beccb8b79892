"""A model that `push_to_hub` uploaded is loaded again by everything that takes a hub id."""

import json

import mteb
import numpy as np
import pytest
from huggingface_hub import ModelCard, constants
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import HubError, InputError
from tests import tiny
from tests.encoders.without_us import without_us
from tests.limits import same_vectors
from tests.loopback_hub import LoopbackHub
from tests.metas import full_name

TEXTS = [tiny.text(n, n) for n in (9, 16, 40, 100)]


def push(name: str, repository: str, **settings) -> object:
    model = longembed.load(name, device="cpu")
    model.push_to_hub(repository, token="hf_of_a_test", **settings)
    return model


def commit(hub: LoopbackHub, repository: str, branch: str = "main") -> str:
    return hub.find("model", repository, branch).sha


@pytest.fixture(scope="module")
def published(hub, tmp_path_factory) -> str:
    """The hub id of `org/bert+pi@128`, which was pushed once for several tests."""
    with pytest.MonkeyPatch.context() as patch:
        hub.patch(patch, tmp_path_factory.getbasetemp() / "hf-home")
        push("org/bert+pi@128", "me/published")
    return "me/published"


def test_every_revision_stays_loadable(online) -> None:
    old = push("org/bert+pi@128", "me/moving")
    first = commit(online, "me/moving")
    new = push("org/bert+gp@64", "me/moving", exist_ok=True)
    third = push("org/bert+rp@64", "me/moving", exist_ok=True, revision="trial")
    assert not np.allclose(old.encode(TEXTS), new.encode(TEXTS), atol=1e-3)
    for revision, expected in ((first, old), ("main", new), (None, new), ("trial", third)):
        loaded = longembed.load("me/moving", revision=revision, device="cpu")
        same_vectors(loaded.encode(TEXTS), expected.encode(TEXTS))
        sha = commit(online, "me/moving", revision or "main")
        assert loaded.model_card_data.base_model_revision == sha
        stock = SentenceTransformer("me/moving", revision=revision, trust_remote_code=True, device="cpu")
        same_vectors(stock.encode(TEXTS), expected.encode(TEXTS))
    by_name = longembed.load(f"me/moving+none:revision={first}", device="cpu")
    same_vectors(by_name.encode(TEXTS), old.encode(TEXTS))
    second = commit(online, "me/moving")
    for revision, sha, max_tokens in ((None, second, 64), (first, first, 128), ("main", second, 64)):
        meta = mteb.get_model_meta("me/moving", revision, fetch_from_hf=True)
        assert (meta.revision, meta.max_tokens) == (sha, max_tokens)
    assert mteb.get_model("me/moving", first, device="cpu").mteb_model_meta.revision == first


@pytest.mark.parametrize(
    ("base", "tail", "max_tokens"), [("org/bert", "+pcw@128", 128), ("org/modernbert", "+se@64:g=9", 64)]
)
def test_a_pushed_model_is_known_by_its_hub_id_and_its_commit(online, base, tail, max_tokens) -> None:
    repository = f"me/{base[4:]}-longer"
    model = push(base + tail, repository)
    loaded, meta = (
        longembed.load(repository, device="cpu"),
        mteb.get_model_meta(repository, fetch_from_hf=True),
    )
    assert loaded.model_card_data.model_name == meta.name == repository
    assert loaded.model_card_data.base_model_revision == meta.revision == commit(online, repository)
    assert f"mteb run -m {repository} -t" in ModelCard.load(repository).text
    experiment = {"strategy": "none", "target_len": max_tokens, "algorithm": ALGORITHM}
    assert (meta.experiment_kwargs, meta.adapted_from, meta.max_tokens) == (experiment, base, max_tokens)
    in_mteb = mteb.get_model(repository, device="cpu")
    assert in_mteb.mteb_model_meta.name == repository
    for same in (loaded, in_mteb.model):
        same_vectors(same.encode(TEXTS), model.encode(TEXTS))
        same_vectors(same.encode_query(TEXTS), model.encode_query(TEXTS))


# ---- in mteb -----------------------------------------------------------------------------------------------


def test_search_parameters_are_added_to_a_published_name(online, published) -> None:
    meta = mteb.get_model_meta(f"{published}+none:fusion=bm25")
    assert full_name(meta) == f"{published}+none@128,fusion=bm25"
    assert mteb.get_model_meta(full_name(meta)).experiment_kwargs == meta.experiment_kwargs


def test_mteb_own_names_and_look_ups_of_bases_send_no_request(online) -> None:
    mteb.get_model_meta("intfloat/e5-base-v2")
    mteb.get_model_meta("intfloat/e5-base-v2").get_training_datasets()
    for name in ("me/never-made", "no-slash", "./a/folder"):
        with pytest.raises(KeyError):
            mteb.get_model_meta(name, fetch_from_hf=False)
    assert online.requests == []


def test_what_is_in_the_cache_loads_without_the_hub(online, published, monkeypatch) -> None:
    model = longembed.load(published, device="cpu")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    loaded = longembed.load(published, device="cpu")
    same_vectors(loaded.encode(TEXTS), model.encode(TEXTS))
    assert mteb.get_model_meta(published, fetch_from_hf=True).name == published


# ---- what goes wrong ---------------------------------------------------------------------------------------


def test_a_published_model_cannot_be_extended_again(online, published) -> None:
    for tail in ("+gp@64", "+none@64", "+none:trained_len=8"):
        with pytest.raises(InputError, match=rf"^{published} is extended already and accepts no strategy"):
            longembed.load(published + tail)
    with pytest.raises(HubError, match=f"'{published}' at revision nowhere"):
        longembed.load(published, revision="nowhere")


def test_files_outside_of_the_repository_are_not_read(online) -> None:
    entry = {"idx": 0, "name": "0", "type": "mteb_longembed.encoders.model.LongTransformer"}
    entry["path"] = "../../elsewhere"
    online.add("me/hostile", {"modules.json": json.dumps([entry])})
    with pytest.raises(TypeError, match=r"a path inside the model's own folder, got .*'\.\./\.\./elsewhere'"):
        longembed.load("me/hostile")


def test_without_our_package_it_fails_and_names_what_is_missing(online, published) -> None:
    for trusted in (True, False):
        with without_us(), pytest.raises(ImportError, match=r"(?s)mteb-longembed.*pip install"):
            SentenceTransformer(published, trust_remote_code=trusted, device="cpu")
