"""A base as its files describe it, in sentence-transformers' own classes, with weights."""

import contextlib
import re
from collections.abc import Iterator

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from mteb_longembed.errors import LongEmbedError, ModelError
from mteb_longembed.files import Json
from mteb_longembed.hub import hub_answers, translate_hub_errors, unreachable
from mteb_longembed.names import Settings

from .base import Base
from .e5rope import E5_ROPE, KEY_MAPPING
from .head import as_transformer, reader_of
from .kinds import KINDS, EmbeddingModel
from .spec import DTYPES
from .weights import rows_of_vocabulary

#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")


@contextlib.contextmanager
def translate_errors(base: Base) -> Iterator[None]:
    """Translate any library's error, inside this context, into one sentence on why a base cannot be loaded."""
    path = base.files.path
    try:
        with contextlib.nullcontext() if base.files.local else translate_hub_errors():
            yield
    except (LongEmbedError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not base.files.local and not hub_answers():
            raise unreachable(path) from error
        why = " ".join(str(error).split())[:250]
        raise ModelError(
            f"the model in {path} cannot be loaded: {type(error).__name__}: {why.rstrip('.')}."
        ) from error


def loading_options(base: Base, dtype: str | None, model_kwargs: Settings | None) -> Json:
    """Return the arguments with which sentence-transformers loads the files of a base and no others."""
    computed = {} if dtype is None else {"dtype": DTYPES[dtype]}
    return {
        "trust_remote_code": base.runs_code,
        "model_kwargs": {**(model_kwargs or {}), **computed},
        "revision": base.files.commit,
        # if the hub does not answer, no file is retried: the small files came from the cache too
        "local_files_only": base.files.local or not hub_answers(),
    }


def load_base(
    base: Base, device: str | None, dtype: str | None = None, model_kwargs: Settings | None = None
) -> EmbeddingModel:
    """Load the base as its files describe it, in sentence-transformers' own classes. The zoo fills the gaps.

    Without a device, it goes to the best one.
    """
    kwargs = loading_options(base, dtype, model_kwargs)
    entry = base.entry
    # None is replaced by the value in the files
    options: Json = {
        "device": device,
        "prompts": {"query": entry.query_prompt, "document": entry.document_prompt},
    }
    if entry.config:
        kwargs["config_kwargs"] = dict(entry.config)
    if base.config.architectures == [E5_ROPE]:
        kwargs["model_kwargs"]["key_mapping"] = KEY_MAPPING
    if base.modules or entry.pooling is None:
        model = KINDS[base.kind](base.files.path, **options, **kwargs)
    else:
        inner = Transformer.load(base.files.path, **kwargs)
        modules = [inner, Pooling(inner.get_embedding_dimension(), entry.pooling)]
        model = SentenceTransformer(modules=modules, **options)
    first = as_transformer(reader_of(model))
    if base.config.architectures == [E5_ROPE]:
        vars(first.model)["_weight_conversions"] = []  # it is saved under transformers' names
    check_loaded(first, base.files.path)
    if entry.append_eos:
        _append_eos(model.tokenizer)
    return model


def _append_eos(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make every input end in the end-of-sequence token, unless the tokenizer's files do so already."""
    eos = tokenizer.eos_token
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return
    template = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B {eos}", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    backend = tokenizer.backend_tokenizer
    before = [] if backend.post_processor is None else [backend.post_processor]
    backend.post_processor = processors.Sequence([*before, template])


def check_loaded(first: Transformer, path: str) -> None:
    """Raise ModelError if a base that has just been loaded lacks weights that it needs, or its tokenizer's files.

    transformers draws missing weights at random, and makes a tokenizer that knows only special tokens.
    """
    missing = []
    for name, weight in first.model.named_parameters():
        is_used = first.transformer_task == "fill-mask" or not _HEADS.search(name)
        if is_used and not vars(weight).get("_is_hf_initialized"):
            missing.append(name)
    if missing:
        shown = ", ".join(sorted(missing)[:3])
        raise ModelError(
            f"the checkpoint in {path} lacks {len(missing)} weights that the model needs: {shown}."
        )
    rows = rows_of_vocabulary(first)
    if 2 * len(first.tokenizer or ()) < rows:
        raise ModelError(
            f"the tokenizer of {path} must have at least half as many entries as the model's table has rows "
            f"({rows:,}), got {len(first.tokenizer or ()):,}: add its own files, such as tokenizer.json."
        )
