"""The model card says what the model is, and its code runs."""

import re
import shutil
import warnings
from pathlib import Path

import mteb
import pytest
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.card import TRAINED
from mteb_longembed.encoders.export import export
from mteb_longembed.errors import DataError


def card_in(folder: Path) -> ModelCard:
    return ModelCard.load(folder / "README.md")


def run_python(card: ModelCard) -> list[dict]:
    """What each Python snippet of a card leaves behind."""
    snippets = re.findall(r"```python\n(.*?)```", str(card), re.S)
    assert snippets
    left = []
    for snippet in snippets:
        names: dict = {}
        exec(compile(snippet, "card", "exec"), names)
        left.append(names)
    return left


@pytest.mark.parametrize("name", ["org/modernbert+se@64", "org/bert+pi@64:vectors=8"])
def test_the_code_in_the_card_of_a_saved_model_runs(online, tmp_path, monkeypatch, capsys, name) -> None:
    longembed.load(name, device="cpu").save_pretrained(str(tmp_path / "longer"))
    monkeypatch.chdir(tmp_path)
    assert len(run_python(card_in(tmp_path / "longer"))) == 2
    assert capsys.readouterr().out.count("tensor(") == 2


def test_the_card_says_what_the_model_is_and_what_it_was_made_of(online, tmp_path) -> None:
    model = longembed.load("org/modernbert+se@64:g=9", device="cpu")
    model.save_pretrained(str(tmp_path / "longer"))
    card = card_in(tmp_path / "longer")
    sha = online.find("model", "org/modernbert", "main").sha
    text = card.text
    assert f"[org/modernbert](https://huggingface.co/org/modernbert) at commit `{sha}`" in text
    assert "up to 16 tokens, extended to 64 tokens by the strategy `se`" in text
    assert "LongTransformer(strategy=se, 16 -> 64)" in text
    assert 'mteb_longembed.load("org/modernbert+se@64,g=9")' in text
    assert "arxiv.org/abs/2404.12096" in text
    data = card.data
    assert (data.base_model, data["base_model_revision"], data.license) == ("org/modernbert", sha, "mit")
    assert data.language == ["en", "de"]
    assert {"mteb-longembed", "sentence-transformers"} <= set(data.tags)
    assert data.library_name == "sentence-transformers"


def test_the_card_claims_no_training_that_did_not_happen(online, tmp_path) -> None:
    model = longembed.load("org/bert+pi@128", device="cpu")
    model.save_pretrained(str(tmp_path / "longer"))
    text = str(card_in(tmp_path / "longer")).lower()
    assert not re.search("fine-?tun|trained then|were then trained", text)
    model.model_card_data.tags.append(TRAINED)
    model.save_pretrained(str(tmp_path / "trained"))
    reloaded = longembed.load(tmp_path / "trained", device="cpu")
    reloaded.save_pretrained(str(tmp_path / "again"))
    for name in ("trained", "again"):
        assert "Weights were then trained" in card_in(tmp_path / name).text
        assert "made by" not in card_in(tmp_path / name).text


def test_a_saved_model_with_fewer_vectors_names_what_makes_it(online, tmp_path) -> None:
    name = "org/bert+pi@128,max_vectors=2,vectors=8"
    longembed.load(name, device="cpu").save_pretrained(str(tmp_path / "first"))
    longembed.load(tmp_path / "first", device="cpu").save_pretrained(str(tmp_path / "second"))
    for folder in ("first", "second"):
        text = card_in(tmp_path / folder).text
        assert f'mteb_longembed.load("{name}")' in text and "`one for 8 tokens`" in text


def test_a_licence_without_a_short_name_is_inherited_whole(online, tmp_path) -> None:
    longembed.load("org/bert+pi@128", device="cpu").save_pretrained(str(tmp_path / "longer"))
    longembed.load(tmp_path / "longer", device="cpu").save_pretrained(str(tmp_path / "again"))
    for name in ("longer", "again"):
        data = card_in(tmp_path / name).data
        assert (data.license, data.license_name) == ("other", "some-licence")
        assert data.license_link == "https://example.org/licence"
        assert data.base_model == "org/bert"


def test_the_card_of_a_local_base_names_no_path(base_folder, tmp_path) -> None:
    longembed.extend(base_folder, "pi", 128, device="cpu").save_pretrained(str(tmp_path / "longer"))
    card = card_in(tmp_path / "longer")
    assert "`local/model` (a local folder whose files hash to" in card.text
    assert card.data.base_model is None
    assert str(tmp_path) not in str(card) and str(base_folder) not in str(card)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("org/bert+pi@128", True),
        ("org/bert+gp@128", False),
        ("org/bert+pcw@64", False),
        ("org/modernbert+ntk@64", True),
        ("org/modernbert+se@64", False),
    ],
)
def test_the_card_says_where_a_plain_checkpoint_can_be_written(online, tmp_path, name, plain) -> None:
    model = longembed.load(name, device="cpu")
    model.save_pretrained(str(tmp_path / "longer"))
    assert ("`mteb-longembed export longer" in card_in(tmp_path / "longer").text) == plain
    if plain:
        export(model, tmp_path / "plain")


# ---- scores ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory, hub) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        hub.patch(patch, tmp_path_factory.getbasetemp() / "hf-home")
        folder = tmp_path_factory.mktemp("results")
        task = mteb.get_task("LongEmbedPasskey", eval_splits=["test_256"])
        with warnings.catch_warnings(action="ignore"):
            model = longembed.load("org/bert+pi@64", device="cpu")
            mteb.evaluate(model, task, cache=mteb.ResultCache(folder), show_progress_bar=False)
    return folder


def test_scores_stand_in_the_card_as_mteb_writes_them(online, results, tmp_path) -> None:
    model = longembed.load("org/bert+pi@64", device="cpu")
    model.save_pretrained(str(tmp_path / "longer"), results=results)
    card = card_in(tmp_path / "longer")
    [score] = card.data.eval_results
    assert (score.dataset_name, score.dataset_split) == ("LongEmbedPasskey (default)", "test_256")
    row = f"| test_256 | {score.metric_name} | {100 * score.metric_value:.1f} |"
    assert f"| LongEmbedPasskey (default) {row}" in card.text
    assert "mteb" in card.data.tags
    model.save_pretrained(str(tmp_path / "without"))
    assert card_in(tmp_path / "without").data.eval_results is None


def test_a_pushed_card_has_the_scores_too_and_its_code_runs(online, results) -> None:
    model = longembed.load("org/bert+pi@64", device="cpu")
    model.push_to_hub("me/with-card", token="hf_of_a_test", results=results)
    card = ModelCard.load("me/with-card")
    assert len(card.data.eval_results) == 1
    for left in run_python(card):
        assert left["model"].max_seq_length == 64
    assert "mteb run -m me/with-card" in str(card)


def test_results_without_the_model_are_told_before_anything_is_written(online, results, tmp_path) -> None:
    model = longembed.load("org/bert+pi@128", device="cpu")
    with pytest.raises(DataError, match=r"must hold results of org/bert\+pi@128 at revision .*, got none"):
        model.save_pretrained(str(tmp_path / "longer"), results=results)
    with pytest.raises(DataError, match="got none"):
        export(model, tmp_path / "plain", results=results)
    assert not (tmp_path / "longer").exists() and not (tmp_path / "plain").exists()
    broken = shutil.copytree(results, tmp_path / "broken")
    for content in ("{", "[]"):
        next(broken.rglob("LongEmbedPasskey.json")).write_text(content)
        with pytest.raises(DataError, match=r"LongEmbedPasskey.json is not a result that mteb wrote"):
            longembed.load("org/bert+pi@64", device="cpu").save_pretrained(
                str(tmp_path / "x"), results=broken
            )


# ---- exported checkpoints ----------------------------------------------------------------------------------


def test_the_card_of_an_exported_checkpoint_loads_it_with_stock_code(online, results, tmp_path, monkeypatch):
    lost = export("org/bert+pi@64", tmp_path / "plain", results=results)
    monkeypatch.chdir(tmp_path)
    card = card_in(tmp_path / "plain")
    [left] = run_python(card)
    assert type(left["model"]) is SentenceTransformer and left["model"].max_seq_length == 64
    assert lost and all(sentence in card.text for sentence in lost)
    data = card.data
    assert (data.base_model, data.license_name, data.language) == ("org/bert", "some-licence", ["en", "de"])
    assert "import mteb_longembed" not in card.text and "mteb-longembed" not in data.tags
    # the checkpoint is another model than the one with these scores
    assert data.eval_results is None and "not of this checkpoint" in card.text
