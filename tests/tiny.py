"""Tiny random models of real architectures, with a real tokenizer: for shape and equality tests."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedTokenizerFast
from transformers.models.auto import CONFIG_MAPPING

import mteb_longembed

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = [f"{a}{b}" for a in LETTERS[:20] for b in LETTERS[:20]] + list(LETTERS) + [f"##{c}" for c in LETTERS]
WORDS += [":", ".", ",", "query", "passage"]
TRAINED = 16
#: How many words the texts of a test have: a search with BM25 encodes each of them.
VOCABULARY = 60
#: Prompts of two tokens each.
PROMPTS = {"query": "query : ", "document": "passage : "}
#: mteb takes a plain model with a card only.
CARD = "---\nlicense: mit\n---\n"

#: Model type -> settings that its configuration needs in addition to the common sizes.
ARCHITECTURES: dict[str, dict] = {
    "bert": {},
    "roberta": {"max_position_embeddings": TRAINED + 2, "pad_token_id": 1},
    "mpnet": {"max_position_embeddings": TRAINED + 2, "pad_token_id": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
}
#: Settings with which the sliding layers of a model see fewer tokens than in training.
SLIDING: dict[str, dict] = {"modernbert": {"local_attention": 8}}


def tokenizer(max_len: int = TRAINED) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer whose words have two letters. One word is one token."""
    vocab = {token: i for i, token in enumerate(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *WORDS])}
    raw = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 0), ("[SEP]", 2)]
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    special = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("cls", "pad", "sep", "unk", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=max_len, **special)


def transformer(
    model_type: str, folder: Path, seed: int = 0, tokens: PreTrainedTokenizerFast | None = None,
    masked: bool = False, **config: object,
) -> Path:  # fmt: skip
    """Save a tiny transformer of this type with a tokenizer. Weights are so large that positions matter."""
    torch.manual_seed(seed)
    tokens = tokens or tokenizer()
    sizes = {
        "vocab_size": len(tokens), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": TRAINED, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "initializer_range": 0.3,
    }  # fmt: skip
    settings = {**sizes, **ARCHITECTURES.get(model_type, {}), **config}
    kind = AutoModelForMaskedLM if masked else AutoModel
    model = kind.from_config(CONFIG_MAPPING[model_type](**settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "position_embeddings" in name:
                parameter.normal_(0, 0.5)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


#: Models that this process has made.
_MADE = tempfile.TemporaryDirectory()


def _made_once(make: Callable[..., Path]) -> Callable[..., Path]:
    """Make a model of the same settings once in a process, and copy its folder from then on."""

    @wraps(make)
    def copied(model_type: str, folder: Path, *settings: Any, **more: Any) -> Path:
        if "tokens" in more:  # tokenizers cannot be compared
            return make(model_type, folder, *settings, **more)
        key = repr((make.__name__, model_type, settings, sorted(more.items())))
        kept = Path(_MADE.name) / hashlib.sha256(key.encode()).hexdigest()
        if not kept.exists():
            make(model_type, kept, *settings, **more)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        (made,) = (folder / path.name for path in kept.iterdir() if path.name != "transformer")
        return made

    return copied


@_made_once
def saved(
    model_type: str, folder: Path, card: str = "", pooling: str = "mean", dense: bool = False,
    prompts: dict | None = None, **config: object,
) -> Path:  # fmt: skip
    """The folder of a tiny SentenceTransformer, below `folder`."""
    inner = Transformer(str(transformer(model_type, folder / "transformer", **config)))
    width = inner.get_embedding_dimension()
    modules = [inner, Pooling(width, pooling)]
    if dense:
        modules.append(Dense(width, 24))
    modules.append(Normalize())
    model = SentenceTransformer(modules=modules, device="cpu", prompts=prompts)
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    if card:
        (folder / "model" / "README.md").write_text(card)
    return folder / "model"


def sentence_transformer(
    model_type: str, folder: Path, pooling: str = "mean", name: str | None = None, **settings: object
) -> SentenceTransformer:
    """A tiny SentenceTransformer saved under `folder` and loaded from it. `extend` needs its name."""
    loaded = SentenceTransformer(str(saved(model_type, folder, pooling=pooling, **settings)), device="cpu")
    if name is not None:
        loaded.model_card_data.model_name = name
    return loaded


def late(model_type: str, folder: Path, **settings: Any) -> MultiVectorEncoder:
    """A tiny model of late interaction, saved and loaded, as `saved_late` makes it."""
    return MultiVectorEncoder(str(saved_late(model_type, folder, **settings)), device="cpu")


@_made_once
def saved_late(model_type: str, folder: Path, **settings: Any) -> Path:
    """The folder of a model of late interaction with a map of tokens and words that no document keeps.

    `settings` are its Transformer's, such as `query_expansion`.
    """
    path = str(transformer(model_type, folder / "transformer", **SLIDING.get(model_type, {})))
    inner = Transformer(path, **settings)
    map_of_tokens = Dense(
        32, 24, bias=False, module_input_name="token_embeddings", activation_function=torch.nn.Identity()
    )
    behind = [
        MultiVectorMask(skiplist_words=[WORDS[3], ","]),
        Normalize(module_input_name="token_embeddings"),
    ]
    model = MultiVectorEncoder(modules=[inner, map_of_tokens, *behind], device="cpu", prompts=PROMPTS)
    model.save_pretrained(str(folder / "late"), create_model_card=False)
    return folder / "late"


def sparse(model_type: str, folder: Path, pooling: str = "max") -> SparseEncoder:
    """A tiny learned sparse model, saved and loaded."""
    return SparseEncoder(str(saved_sparse(model_type, folder, pooling)), device="cpu")


@_made_once
def saved_sparse(model_type: str, folder: Path, pooling: str = "max") -> Path:
    """The folder of a tiny learned sparse model."""
    path = str(transformer(model_type, folder / "transformer", masked=True, **SLIDING.get(model_type, {})))
    inner = Transformer(path, transformer_task="fill-mask")
    model = SparseEncoder(modules=[inner, SpladePooling(pooling)], device="cpu", prompts=PROMPTS)
    model.save_pretrained(str(folder / "sparse"), create_model_card=False)
    return folder / "sparse"


def adapted(base: Any, documents: Any, **settings: Any) -> Any:
    """A model that is fitted on documents, on the CPU, without a bar."""
    return mteb_longembed.adapt(base, documents, device="cpu", show_progress_bar=False, **settings)


def text(n: int, seed: int = 0, words: int = VOCABULARY) -> str:
    """A text of exactly `n` tokens, the two special ones included."""
    generator = torch.Generator().manual_seed(seed * 1000 + n)
    return " ".join(WORDS[i] for i in torch.randint(words, (n - 2,), generator=generator).tolist())
