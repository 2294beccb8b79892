"""The model card says what the model is, and its code runs."""

import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

import mteb_longembed as longembed
from mteb_longembed.encoders.export import export
from tests import tiny


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


def code_runs(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether the code of a card loads the model of its folder and shows one result."""
    monkeypatch.chdir(folder.parent)
    [left] = run_python(card_in(folder))
    return left["model"].max_seq_length == 64 and capsys.readouterr().out.count("tensor(") == 1


def test_the_card_says_what_the_model_is_and_its_code_runs(online, tmp_path, monkeypatch, capsys) -> None:
    model = longembed.load("org/modernbert+se@64:g=9", device="cpu")
    model.save_pretrained(str(tmp_path / "longer"))
    assert code_runs(tmp_path / "longer", monkeypatch, capsys)
    card = card_in(tmp_path / "longer")
    sha = online.find("model", "org/modernbert", "main").sha
    text = card.text
    assert f"[org/modernbert](https://huggingface.co/org/modernbert) at commit `{sha}`" in text
    assert "up to 16 tokens, extended to 64 tokens by the strategy `se`" in text
    assert "`org/modernbert+se@64,g=9,trained_len=16`" in text or "`org/modernbert+se@64,g=9`" in text
    data = card.data
    assert data.base_model == "org/modernbert"
    assert {"mteb-longembed", "sentence-transformers"} <= set(data.tags)
    assert data.library_name == "sentence-transformers"


def test_several_vectors_are_named_in_the_card_and_its_code_runs(online, tmp_path, monkeypatch, capsys):
    longembed.load("org/bert+pi@64,vectors=8").save_pretrained(str(tmp_path / "first"))
    assert code_runs(tmp_path / "first", monkeypatch, capsys)
    longembed.load(tmp_path / "first").save_pretrained(str(tmp_path / "second"))
    for folder in ("first", "second"):
        assert "@64,vectors=8`" in card_in(tmp_path / folder).text


def test_the_card_of_a_local_base_names_no_path(folder, tmp_path) -> None:
    longembed.extend(folder, "pi", 128, device="cpu").save_pretrained(str(tmp_path / "longer"))
    card = card_in(tmp_path / "longer")
    assert "`local/model` (a local folder)" in card.text
    assert card.data.base_model is None
    assert str(tmp_path) not in str(card) and str(folder) not in str(card)


# ---- exported checkpoints ----------------------------------------------------------------------------------


def test_the_card_of_an_exported_checkpoint_loads_it_with_stock_code(online, tmp_path, monkeypatch):
    lost = export("org/bert+pi@64", tmp_path / "plain")
    monkeypatch.chdir(tmp_path)
    card = card_in(tmp_path / "plain")
    [left] = run_python(card)
    assert type(left["model"]) is SentenceTransformer and left["model"].max_seq_length == 64
    assert lost and all(sentence in card.text for sentence in lost)
    data = card.data
    assert data.base_model == "org/bert"
    assert "import mteb_longembed" not in card.text and "mteb-longembed" not in data.tags


@pytest.mark.parametrize(
    ("make", "stock_class"), [(tiny.late, MultiVectorEncoder), (tiny.sparse, SparseEncoder)]
)
def test_cards_of_late_interaction_and_sparse_models_load_them_by_their_class(
    make, stock_class, tmp_path, monkeypatch
) -> None:
    base = make("modernbert", tmp_path / "base")
    base.model_card_data.model_name = "tiny/base"
    model = longembed.extend(base, "pi", 128, 16, logn=False)
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("saved")
    export(model, Path("plain"))
    for folder, wanted in (("saved", type(model)), ("plain", stock_class)):
        card = card_in(tmp_path / folder)
        [left] = run_python(card)
        assert type(left["model"]) is wanted
        assert ("`document_length` of the base" in card.text) == (stock_class is MultiVectorEncoder)


CARD = "---\nlicense: mit\nlanguage:\n- de\n- en\nbase_model: me/first\n---\n# A base\n"


@pytest.mark.parametrize(
    "how", ["saved", "exported", "adapted", "adapted plain", "saved twice", "several", "from loaded"]
)
@pytest.mark.parametrize("where", ["hub", "folder"])
def test_licence_language_and_base_model_of_the_base_stay_on_every_card(how, where, online, tmp_path) -> None:
    folder = tiny.saved("bert", tmp_path / "base")
    (folder / "README.md").write_text(CARD)
    base = str(folder)
    if where == "hub":
        online.add("me/second", folder)
        base = "me/second"
    out = tmp_path / "out"
    texts = [tiny.text(30, seed) for seed in range(20)]
    options = {"device": "cpu", "show_progress_bar": False}
    if how == "saved":
        longembed.load(f"{base}+pi@64", device="cpu").save_pretrained(str(out))
    elif how == "exported":
        export(f"{base}+pi@64", out)
    elif how == "adapted":
        longembed.adapt(f"{base}+pi@64", texts, **options).save_pretrained(str(out))
    elif how == "adapted plain":
        longembed.adapt(base, texts, **options).save_pretrained(str(out))
    elif how == "saved twice":
        longembed.load(f"{base}+pi@64", device="cpu").save_pretrained(str(tmp_path / "first"))
        longembed.load(tmp_path / "first", device="cpu").save_pretrained(str(out))
    elif how == "several":
        longembed.load(f"{base}+pi@64:vectors=8", device="cpu").save_pretrained(str(out))
    else:
        loaded = SentenceTransformer(base, device="cpu")
        longembed.extend(loaded, "pi", 64, device="cpu").save_pretrained(str(out))
    data = card_in(out).data
    assert (data.license, data.language) == ("mit", ["de", "en"])
    # a loaded model may be another one than its repository
    assert data.base_model == ("me/second" if where == "hub" and how != "from loaded" else "me/first")


@pytest.mark.parametrize(
    "card", ["", "no metadata", "---\n: [\n---\n", "---\nlicense: []\n---\n", "---\n- a\n---\n"]
)
def test_a_base_without_a_card_that_can_be_read_has_no_licence(card, tmp_path) -> None:
    folder = tiny.saved("bert", tmp_path / "base")
    (folder / "README.md").write_text(card)
    longembed.load(f"{folder}+pi@64", device="cpu").save_pretrained(str(tmp_path / "out"))
    assert card_in(tmp_path / "out").data.license is None
