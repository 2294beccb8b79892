"""Checkpoints that we read as another class of transformers than the one that their files name.

E5-RoPE would run its authors' code (`e5rope.py`). EmbeddingGemma 2 also reads pictures and sound: its language model is
a model of its own, and needs no library for the rest.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, PretrainedConfig

from mteb_longembed.hub import hub_answers

from . import e5rope
from .files import Files

#: The small files that are copied. Code never is.
_SMALL = (".json", ".txt", ".model", ".jinja")


def text_config(config: dict[str, Any]) -> PretrainedConfig:
    """The configuration of the language model inside a model that also reads pictures or sound."""
    inner = dict(config["text_config"])
    return AutoConfig.for_model(inner.pop("model_type"), **inner)


def save_text_model(source: Path, target: Path) -> None:
    """Save the language model of a folder alone."""
    whole = AutoModel.from_pretrained(source, vision_config=None, audio_config=None, dtype="auto")
    whole.language_model.save_pretrained(target)


#: Model type -> the configuration for its `config.json`, and what writes the model from one folder to another.
NATIVE: dict[str, tuple[Callable[[dict[str, Any]], PretrainedConfig], Callable[[Path, Path], None]]] = {
    "e5rope": (e5rope.native_config, e5rope.save_native),
    "embedding_gemma2": (text_config, save_text_model),
}


@contextmanager
def native_folder(files: Files, model_type: str) -> Iterator[str]:
    """The path of a converted copy of a checkpoint. It exists as long as the context."""
    folder = Path(files.path)
    if not files.local:
        for weights in ("*.safetensors", "*pytorch_model.bin"):
            patterns = [*(f"*{ending}" for ending in _SMALL), weights]
            offline = not hub_answers()
            found = snapshot_download(
                files.path, revision=files.commit, allow_patterns=patterns, local_files_only=offline
            )
            folder = Path(found)
            if list(folder.glob(weights)):
                break
    with tempfile.TemporaryDirectory() as target:
        _, write = NATIVE[model_type]
        write(folder, Path(target))
        for file in folder.rglob("*"):
            copy = Path(target, file.relative_to(folder))
            wanted = file.suffix in _SMALL or (file.parent != folder and file.suffix == ".safetensors")
            unwanted = re.search(r"index|processor|sentence_bert_config", file.name)
            if file.is_file() and wanted and not unwanted and not copy.exists():
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, copy)
        yield target
