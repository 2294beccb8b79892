"""The architectures of transformers' registry that one of our families claims, each as a tiny model."""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path

from sentence_transformers import SentenceTransformer
from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from mteb_longembed.encoders.positions import UNKNOWN as UnknownPositions
from mteb_longembed.encoders.positions import Positions as Family
from mteb_longembed.encoders.positions import positions_of as family_of
from mteb_longembed.errors import ModelError
from tests import tiny
from tests.encoders.test_rotary import SCALINGS

#: Sizes that most architectures of one kind share; the first that gives a small model is taken.
CANDIDATES: list[dict] = [{"num_key_value_heads": 2, "head_dim": 8}, {"num_key_value_heads": 4}, {}]
#: Sizes of parts that some architectures have: experts, and inputs of each layer.
PARTS = {
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "hidden_size_per_layer_input": 4,
}  # fmt: skip
#: What a tiny model of an architecture needs beside them.
SPECIAL: dict[str, dict] = {
    **{kind: {"max_position_embeddings": tiny.TRAINED + 2} for kind in ("camembert", "xlm-roberta", "xlm-roberta-xl")},
    "electra": {"embedding_size": 32},
    "deberta-v2": {
        "position_buckets": 8, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
    },
    "t5": {
        "d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 64, "num_layers": 2, "n_positions": tiny.TRAINED,
        "relative_attention_num_buckets": 12, "relative_attention_max_distance": 40,
    },
    **{kind: {"query_pre_attn_scalar": 8} for kind in ("gemma2", "gemma3_text")},
}  # fmt: skip
#: Behind a model type that has sliding and full layers: the sliding ones see fewer tokens than the trained length.
SLIDING = "sliding"
_WINDOW = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6}
#: Bases with rope scaling of their own.
SCALED = {f"llama, {kind}": {"rope_type": kind, "rope_theta": 500.0, **SCALINGS[kind]} for kind in SCALINGS}


class NotClaimed(Exception):
    """None of our families except the one for unknown positions takes the architecture, or it is no model of texts."""


class NotBuilt(Exception):
    """The sizes here give no tiny model of the architecture."""


def names() -> Iterator[str]:
    """Every model type that transformers can make a model of, and the scaled bases; nothing is imported for it."""
    yield from (kind for kind in CONFIG_MAPPING_NAMES if kind in MODEL_MAPPING_NAMES)
    yield from SCALED


def with_windows(name: str) -> list[str]:
    """One of `names()`, and where its layers differ also itself with windows below the trained length."""
    return [name, f"{name}, {SLIDING}"] if slides(name) else [name]


def slides(kind: str) -> bool:
    """Whether some but not all layers of a model type slide."""
    try:
        kinds = getattr(_default(kind), "layer_types", None) or ()
    except Exception:
        return False
    return set(kinds) == {"full_attention", "sliding_attention"}


@functools.cache
def _default(kind: str) -> PretrainedConfig:
    return CONFIG_MAPPING[kind]()


def family(name: str) -> type[Family]:
    """The family that claims an architecture."""
    try:
        kind = family_of(_default(name.partition(",")[0]))
    except ModelError as error:
        raise NotClaimed(str(error)) from None
    except Exception as error:
        raise NotClaimed(f"no configuration without arguments: {type(error).__name__}") from None
    if kind is UnknownPositions:
        raise NotClaimed("unknown")
    return kind


def build(name: str, folder: Path, pooling: str = "mean") -> SentenceTransformer:
    """A tiny SentenceTransformer of an architecture."""
    family(name)
    return built(name, folder, pooling)


def built(name: str, folder: Path, pooling: str = "mean") -> SentenceTransformer:
    """As `build`, whichever family claims it."""
    kind, _, scaled = name.partition(",")
    special = dict(SPECIAL.get(kind, {}))
    if name in SCALED:
        special["rope_parameters"] = SCALED[name]
    elif scaled:
        special.update(copy.deepcopy(_WINDOW))  # some configurations change the list that they get
        if kind == "modernbert":
            special["local_attention"] = 12
    default = _default(kind)
    parts = {key: value for key, value in PARTS.items() if hasattr(default, key)}
    problem: Exception | None = None
    for number, candidate in enumerate(CANDIDATES):
        config = {**parts, **candidate, **special}
        try:
            made = tiny.sentence_transformer(kind, folder / str(number), pooling, **config)
            made.encode(tiny.text(5))
        except Exception as error:
            problem = error
            continue
        made.model_card_data.model_name = f"local/{kind}"
        return made
    reason = str(problem).replace("\n", " ")[:80]
    raise NotBuilt(f"{type(problem).__name__}: {reason}")
