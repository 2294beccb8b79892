"""The language model of a model that also reads pictures and sound: as the whole model runs it, and extended."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from transformers import AutoModel, EmbeddingGemma2Config

import mteb_longembed as longembed
from mteb_longembed.names import ZOO
from tests import tiny
from tests.limits import same_vectors
from tests.miniatures import llama_bpe

TEXT = {
    "vocab_size": 330, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16, "sliding_window": 16, "embedding_dim": 48,
    "hidden_size_per_layer_input": 16, "max_position_embeddings": 8192, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2, "initializer_range": 0.2,
}  # fmt: skip
LAYER = {"num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8}
VISION = {"hidden_size": 16, "intermediate_size": 16, **LAYER}


@pytest.fixture
def served(tmp_path, empty_hub):
    """The model with its tower for pictures, served as a repository of embeddinggemma-2's form."""
    torch.manual_seed(0)
    config = EmbeddingGemma2Config(text_config=TEXT, vision_config={"model_type": "gemma4_vision", **VISION})
    model = AutoModel.from_config(config).eval()
    AutoModel.from_config(config.text_config).save_pretrained(tmp_path / "text")
    llama_bpe().save_pretrained(tmp_path / "text")
    inner = Transformer(str(tmp_path / "text"))
    width = TEXT["embedding_dim"]
    dense = Dense(width, 24, bias=False)
    modules = [inner, Pooling(width, "mean"), dense, Normalize()]
    repository = tmp_path / "repository"
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(repository))
    (repository / "sentence_bert_config.json").write_text('{"modality_config": {"image": {}}}')
    model.save_pretrained(repository)
    entry = ZOO["embeddinggemma-2"]
    empty_hub.add(entry.hub_id, repository, sha=entry.revision)
    return model, dense


def test_the_language_model_is_loaded_alone_and_extended(served):
    model = longembed.load("embeddinggemma-2")
    assert model.model_card_data.model_name == "google/embeddinggemma-2+none@8192"
    full_model, dense = served
    text = tiny.text(40)
    ids = torch.tensor([model.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        tokens = full_model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        vector = dense({"sentence_embedding": tokens.mean(0, keepdim=True)})["sentence_embedding"][0]
    same_vectors(torch.nn.functional.normalize(vector, dim=0), model.encode(text))
    assert "vision" not in " ".join(model[0].model.state_dict())
    extended = longembed.extend("embeddinggemma-2", "ntk", 64, trained_len=32)
    assert extended[0].family.name == "rotary"
    assert np.isfinite(extended.encode(tiny.text(60))).all()
