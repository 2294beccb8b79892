"""`extend` and `load`: a real SentenceTransformer, under its own name, that leaves its base alone."""

import copy
import functools
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed import zoo
from mteb_longembed.encoders import identity
from mteb_longembed.encoders import load as load_module
from mteb_longembed.encoders.identity import digest
from mteb_longembed.encoders.load import extend, load
from mteb_longembed.errors import IncompatibleError, InputError, LongEmbedError, ModelError
from tests import tiny
from tests.encoders.oracle_matrix.architectures import SPECIAL
from tests.limits import same_vectors

TEXTS = [tiny.text(n) for n in (5, tiny.TRAINED, 40, 128, 150)]
STRATEGIES = ["none", "pcw", "gp", "rp", "pi", "ntk"]


@pytest.fixture(scope="module")
def base(folder) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu")
    model.model_card_data.model_name = "someone/tiny"
    return model


def test_the_given_model_stays_as_it_is(base):
    original = {key: value.clone() for key, value in base.state_dict().items()}
    want = base.encode(TEXTS)
    for strategy in STRATEGIES:
        extend(base, strategy).encode(TEXTS)
    assert type(base[0]).__name__ == "Transformer" and base.max_seq_length == tiny.TRAINED
    assert base.model_card_data.model_name == "someone/tiny"
    assert all(torch.equal(original[key], value) for key, value in base.state_dict().items())
    assert np.array_equal(base.encode(TEXTS), want)


@pytest.mark.long  # a process of its own for 9 seconds
def test_another_process_has_equal_digests_of_extended_and_saved_models(folder, tmp_path):
    model = extend(folder, "ntk")
    model.save_pretrained(str(tmp_path))
    script = (
        "import sys\n"
        "from mteb_longembed import extend, load\n"
        "from mteb_longembed.encoders.identity import digest\n"
        "print(digest(extend(sys.argv[1], 'ntk')), digest(load(sys.argv[2], device='cpu')))\n"
    )
    command = [sys.executable, "-c", script, str(folder), str(tmp_path)]
    done = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE)
    assert done.stdout.split() == [digest(model), digest(load(tmp_path, device="cpu"))]


def test_plain_sentence_transformers_refuses_a_saved_folder(base, tmp_path):
    extend(base, "gp").save_pretrained(str(tmp_path / "saved"))
    with pytest.raises(ValueError, match=r"mteb_longembed\.encoders\.model\.LongTransformer"):
        SentenceTransformer(str(tmp_path / "saved"))
    assert not (tmp_path / "saved" / "config.json").exists()  # nor can transformers load it un-extended


def test_a_saved_model_takes_nothing_on_top(base, tmp_path):
    folder = str(tmp_path / "saved")
    extend(base, "gp").save_pretrained(folder)
    assert extend(folder, dtype="bf16").dtype == torch.bfloat16
    for given in ({"strategy": "pi"}, {"target_len": 64}, {"vectors": 8}):
        with pytest.raises(InputError, match="is extended already and accepts no strategy, length"):
            extend(folder, **given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: extend(b, "pi", 8), InputError, r"at least the trained length of 16 tokens, got 8"),
        (lambda b: extend(b, "none", 64), InputError, r"at most its 16 trained positions.*use pcw, gp"),
        (lambda b: extend(extend(b, "gp"), "pi"), InputError, r"extended already \(by gp\)"),
        (
            lambda b: extend(b, "gp", revision="main"),
            InputError,
            "revision and dtype can be set only when a base is",
        ),
        (lambda b: extend("no-such/dir/at-all", "gp"), ModelError, "neither a folder that exists nor a hub"),
        (lambda b: extend("ada-002", "pcw"), ModelError, r"mteb\.get_model"),
    ],
)
def test_bad_input_gets_one_sentence(base, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(base)
    assert isinstance(caught.value, LongEmbedError) and "\n" not in str(caught.value)


@pytest.mark.parametrize("vectors", [None, 8])
def test_load_takes_what_sentence_transformers_takes(folder, vectors):
    gp = functools.partial(load, f"{folder}+gp", vectors=vectors)
    plain = gp()
    same = gp(prompts={"query": "query : "}, model_kwargs={"torch_dtype": torch.float32})
    assert same.identity() == plain.identity()
    cut = torch.as_tensor(plain.encode(TEXTS)[4])[..., :4]
    got = gp(truncate_dim=4).encode(TEXTS, normalize_embeddings=True)[4]
    same_vectors(got, torch.nn.functional.normalize(cut, dim=-1))
    given = gp(prompts={"document": "", "fact": "fact : "})
    stock = SentenceTransformer(str(folder), prompts={"document": "", "fact": "fact : "})
    assert given.prompts == stock.prompts and given.identity().name == f"local/{plain.identity().name[6:]}"
    assert given.identity().revision != plain.identity().revision
    assert load(f"{folder}+gp", model_kwargs={"dtype": "bfloat16"}).identity().name.endswith("dtype=bf16")
    eager = load(f"{folder}+none", model_kwargs={"attn_implementation": "eager"})
    assert eager.identity().changed_from
    assert load(f"{folder}+none", similarity_fn_name="dot").similarity_fn_name == "dot"


def test_t5_without_a_length_says_what_to_type(tmp_path):
    tokens, none = tiny.tokenizer(max_len=int(1e30)), {"n_positions": 0, "max_position_embeddings": 0}
    tiny.sentence_transformer("t5", tmp_path, tokens=tokens, **{**SPECIAL["t5"], **none})
    with pytest.raises(InputError, match=r"does not say how many tokens .*, such as :trained_len=512\.$"):
        load(f"{tmp_path}/model+pcw")
    assert load(f"{tmp_path}/model+pcw:trained_len=512").max_seq_length == 4096


def test_a_folder_that_is_no_embedding_model_says_so(tmp_path):
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"is not an embedding model.*BertForSequenceClassification"):
        extend(tmp_path, "gp")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json of .* cannot be read as JSON"):
        extend(tmp_path, "gp")


def test_a_model_that_is_extended_further_keeps_its_compute_type_in_its_name(folder):
    extended = extend(load(f"{folder}+none:dtype=bf16"), "pi", target_len=64)
    by_name = load(f"{folder}+pi@64:dtype=bf16")
    assert extended.model_card_data.model_name == by_name.model_card_data.model_name
    assert extended.dtype == torch.bfloat16


def test_weights_of_a_model_that_load_returned_are_hashed_only_if_they_were_changed(folder, monkeypatch):
    model = load(f"{folder}+none")
    hashed = []
    for module in (load_module, identity):
        monkeypatch.setattr(module, "digest", lambda changed: hashed.append(1) or digest(changed))
    assert extend(model, "gp", 64).identity().base == f"local/{folder.name}" and not hashed
    with torch.no_grad():
        model[0].model.embeddings.word_embeddings.weight[0, 0] += 1
    changed = extend(model, "gp", 64)
    assert len(hashed) == 1 and changed.resolved.base.revision == digest(model)


def test_a_model_of_no_folder_is_extended_whatever_is_in_the_current_one(base, folder, monkeypatch):
    made = SentenceTransformer(modules=list(copy.deepcopy(base)), device="cpu")
    made[0].config._name_or_path, made.model_card_data.model_name = "", "someone/made"
    monkeypatch.chdir(folder)
    extended = extend(made, "pi")
    assert (
        extended.model_card_data.model_name == "someone/made+pi@128" and not extended.resolved.base.files.path
    )


def test_an_interpolated_checkpoint_takes_none_only(base, tmp_path, monkeypatch):

    grown = extend(base, "pi")
    where = tmp_path / "grown"
    inner = copy.deepcopy(grown[0].model)
    inner.config.max_position_embeddings = 128
    rows = {"embeddings.position_embeddings.weight": grown[0].table.long}
    inner.save_pretrained(where, state_dict={**inner.state_dict(), **rows})
    grown.tokenizer.save_pretrained(where)
    entry = zoo.ZooEntry(hub_id=str(where), trained_len=tiny.TRAINED, interpolation=8, pooling="mean")
    known = "mteb_longembed.encoders.base.entry_of"
    monkeypatch.setattr(known, lambda name: entry if name == str(where) else None)
    with pytest.raises(IncompatibleError, match=r"is extended already, to 128 tokens; only none@128 fits it"):
        extend(where, "gp")
    assert extend(where, dtype="bf16").max_seq_length == 128
    model = extend(where)
    texts = TEXTS[:4]
    got = torch.nn.functional.normalize(model.encode(texts, convert_to_tensor=True), dim=1)
    assert torch.allclose(got, grown.encode(texts, convert_to_tensor=True), atol=1e-5)


def test_load_takes_modules_of_this_version_and_of_sentence_transformers_only(base, tmp_path) -> None:
    extend(base, "gp").save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "modules.json"
    saved, theirs = file.read_text(), "sentence_transformers.base.modules.normalize.Normalize"
    inside = ("sentence_transformers.util.torch", "sentence_transformers.SentenceTransformer")
    others = (
        *inside,
        "sentence_transformers.base.Nonsense",
        "os.system",
        "mteb_longembed.encoders.backbone.Long",
    )
    for reference in others:
        file.write_text(saved.replace(theirs, reference))
        with pytest.raises(ModelError, match=r"saved cannot be loaded: "):
            load(tmp_path / "saved")


@pytest.mark.parametrize("given", [None, 3, torch.nn.Linear(2, 2)])
def test_what_is_no_base_is_refused_by_its_type(base, given) -> None:
    with pytest.raises(InputError, match=f"got a {type(given).__name__}"):
        extend(given, "pi")
    for other in (given, base):
        with pytest.raises(InputError, match=f"got a {type(other).__name__}: extend takes loaded models"):
            load(other)


def test_rows_that_a_base_does_not_use_are_named(tmp_path):
    folder = tmp_path / "base"
    tiny.sentence_transformer("bert", folder, max_position_embeddings=32)
    settings = folder / "model" / "sentence_bert_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "max_seq_length": 16}))
    message = r"its 16 trained .* table has 32 rows, and a longer trained_len reads them"
    with pytest.raises(InputError, match=message):
        extend(folder / "model", "none", 32)
    assert extend(folder / "model", "none", 32, trained_len=32).max_seq_length == 32
