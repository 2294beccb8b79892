"""Bases with a vector for each token (ColBERT): as sentence-transformers runs them, extended, saved, and in mteb."""

import json
import string
from pathlib import Path

import mteb
import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Transformer

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.tuning.trainer import tune
from tests import tiny
from tests.limits import same_vectors
from tests.miniatures import MODERNBERT, byte_bpe

LO, TARGET = 300, 700
TEXTS = ["the quick, brown fox", "my box.", "five dozen liquor jugs" + " my box" * 30]
FORMS = [("modernbert", "fixed", True), ("modernbert", "min", False), ("bert", "min", False)]


@pytest.fixture(scope="module", params=FORMS)
def folder(request, tmp_path_factory) -> Path:
    """A model of GTE-ModernColBERT's form; queries are filled up to 32 tokens, which attention sees or not."""
    kind, strategy, attend = request.param
    path = tmp_path_factory.mktemp("colbert")
    config = MODERNBERT if kind == "modernbert" else {"max_position_embeddings": LO}
    tokens = byte_bpe(cls=True)
    inner = tiny.transformer(kind, path / "inner", tokens=tokens, initializer_range=0.2, **config)
    expansion = {"strategy": strategy, "attend": attend, "length": 32, "token": "[UNK]"}
    first = Transformer(str(inner), max_seq_length=LO, document_length=LO, query_expansion=expansion)
    width = first.get_embedding_dimension()
    dense = Dense(width, 16, bias=False, activation_function=None, module_input_name="token_embeddings")
    mask = MultiVectorMask(skiplist_words=list(string.punctuation))
    modules = [first, dense, mask, Normalize(module_input_name="token_embeddings")]
    prompts = {"query": "[Q] ", "document": "[D] "}
    MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts).save_pretrained(str(path / "whole"))
    return path / "whole"


def test_short_texts_have_the_vectors_of_the_base(folder):
    base = MultiVectorEncoder(str(folder), device="cpu")
    for key in ("none", "pcw", "pi", "gp"):
        model = longembed.extend(folder, key)
        assert isinstance(model, MultiVectorEncoder)
        for encode in ("encode_document", "encode_query"):
            wanted, got = (getattr(encoder, encode)(TEXTS) for encoder in (base, model))
            for want, have in zip(wanted, got, strict=True):
                same_vectors(want, have)


@pytest.mark.parametrize("key", ["pcw", "pi"])
def test_a_long_document_has_a_vector_for_each_token_whatever_else_is_encoded(folder, tmp_path, key):
    model = longembed.extend(folder, key, TARGET)
    long = " ".join(TEXTS * 40)
    alone = model.encode_document([long])[0]
    same_vectors(alone, model.encode_document([*TEXTS, long])[3])
    read = model.tokenizer("[D] " + long, truncation=True, max_length=TARGET)["input_ids"]
    skipped = {model.tokenizer.convert_tokens_to_ids(sign) for sign in string.punctuation}
    assert len(alone) == sum(token not in skipped for token in read)
    model.save_pretrained(str(tmp_path / "saved"))
    reloaded = longembed.load(tmp_path / "saved")
    same_vectors(alone, reloaded.encode_document([long])[0])
    same_vectors(model.encode_query(TEXTS[0]), reloaded.encode_query(TEXTS[0]))
    same_vectors(model.encode_query([TEXTS[1], long])[0], model.encode_query(TEXTS[1]))
    with pytest.raises(IncompatibleError, match=r"^index needs a base with one vector for each text"):
        mteb.get_model(f"{tmp_path / 'saved'}+none:index=flat")
    assert reloaded.identity().changed_from is None


def test_windows_are_those_of_a_slow_loop(folder):
    model = longembed.extend(folder, "pcw", TARGET)
    base = longembed.extend(folder, "none")
    long = " ".join(TEXTS * 40)
    ids = model.first.token_ids([long], "[D] ", task="document")[0]
    (prefix, suffix), n = model.first._ends(model.first.features_of([ids], "[D] "))[0], len(ids)
    sums: dict[int, list[np.ndarray]] = {}
    for window in model.first.strategy.windows(n, prefix, suffix).tolist():
        # before the last module a token's vector has no length 1
        features = base[1](base.first(base.first.features_of([ids[window]], "[D] ")))
        for position, vector in zip(window, features["token_embeddings"][0].detach().numpy(), strict=True):
            sums.setdefault(position, []).append(vector)
    wanted = np.stack([np.mean(sums[position], 0) for position in range(n)])
    features = model[2](model.preprocess([long], prompt="[D] ", task="document"), task="document")
    wanted = wanted[features["attention_mask"][0].numpy()]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    same_vectors(wanted, model.encode_document([long])[0])


@pytest.mark.parametrize("folder", FORMS[:1], indirect=True)
def test_mteb_and_search_find_documents(folder):
    model = mteb.get_model(f"{folder}+pcw@{TARGET}")
    meta = model.mteb_model_meta
    assert (meta.model_type, str(meta.similarity_fn_name)) == (["late-interaction"], "MaxSim")
    task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_512"])
    score = mteb.evaluate(model, task, cache=None).task_results[0].get_score()
    searcher = longembed.search(f"{folder}+pcw@{TARGET}")
    searcher.add(["a", "b"], TEXTS[1:])
    inner = searcher.protocol.model
    task.load_data()
    data = task.dataset["default"]["test_512"]
    best = inner.similarity(*(
        encode(data[part]["text"][:])
        for encode, part in ((inner.encode_query, "queries"), (inner.encode_document, "corpus"))
    )).argmax(1)  # fmt: skip
    names = zip(data["queries"]["id"], (data["corpus"]["id"][i] for i in best.tolist()), strict=True)
    right = [document in data["relevant_docs"][query] for query, document in names]
    assert score == pytest.approx(np.mean(right), abs=1e-5)
    (scores,) = inner.similarity([inner.encode_query(TEXTS[0])], inner.encode_document(TEXTS[1:])).tolist()
    hits = {hit.id: hit.score for hit in searcher.search(TEXTS[0])}
    assert hits == pytest.approx(dict(zip("ab", scores, strict=True)), rel=1e-5)


def test_settings_that_need_one_vector_are_refused(folder):
    for setting in ("vectors=4", "vectors=window", "index=ivf", "fuse=bm25"):
        with pytest.raises(IncompatibleError, match=f"has one for each token, got {setting}: leave it out"):
            mteb.get_model(f"{folder}+pcw@{TARGET}:{setting}")
    with pytest.raises(InputError, match="which cannot be cut: leave out embed_dim"):
        mteb.get_model(f"{folder}+pcw@{TARGET}", embed_dim=8)
    with pytest.raises(InputError, match="has one for each token"):
        tune(f"{folder}+pi@{TARGET}", folder / "texts", folder / "out")


def test_pylates_form_is_read_without_pylate(folder, tmp_path):
    """Its last version lists a Transformer and a Dense of its own, with lengths and prefixes in one file."""
    base = MultiVectorEncoder(str(folder), device="cpu")
    theirs = tmp_path / "pylate"
    base.save_pretrained(str(theirs))
    modules = json.loads((theirs / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (theirs / "modules.json").write_text(json.dumps(modules))
    config = json.loads((theirs / "config_sentence_transformers.json").read_text())
    config |= {"model_type": "ColBERT", "similarity_fn_name": "MaxSim"}
    config |= {"query_prefix": "[Q] ", "document_prefix": "[D] "}
    (theirs / "config_sentence_transformers.json").write_text(json.dumps(config))
    model, stock = longembed.extend(theirs, "pi"), MultiVectorEncoder(str(theirs), device="cpu")
    for encode in ("encode_document", "encode_query"):
        for want, have in zip(getattr(stock, encode)(TEXTS), getattr(model, encode)(TEXTS), strict=True):
            same_vectors(want, have)
