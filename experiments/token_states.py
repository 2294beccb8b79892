"""The last hidden state of every token of a collection, window by window, for measurements of pooling.

    python -m experiments.token_states MODEL_FOLDER COLLECTION_FOLDER OUT [--dtype bf16]

COLLECTION_FOLDER has `corpus.jsonl`, `queries.jsonl` and `qrels.jsonl`. The states go to OUT as float16. The first
windows of all documents come first, so an unfinished run already holds the beginning of each document. A run that was
stopped goes on where it stopped.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

BATCH = 16  # windows
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def read_rows(file: Path) -> list[dict[str, object]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def window_size(model_folder: Path) -> int:
    """The model's own limit in tokens, special tokens included."""
    return int(json.loads((model_folder / "sentence_bert_config.json").read_text())["max_seq_length"])


def cut(ids: list[list[int]], content: int) -> list[tuple[int, int, list[int]]]:
    """Windows as (number of the window, number of the text, token ids), the first windows of all texts first."""
    windows = []
    for text, row in enumerate(ids):
        for number, start in enumerate(range(0, max(len(row), 1), content)):
            windows.append((number, text, row[start : start + content]))
    return sorted(windows, key=lambda window: window[:2])


def embed(model, tokenizer, texts: list[str], content: int, out: Path, *, first_only: bool) -> None:
    """Write the states, token ids, window and text of each token to `out`."""
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    if first_only:
        ids = [row[:content] for row in ids]
    windows = cut(ids, content)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = [[start, *row, end] for _, _, row in windows]
    starts = np.cumsum([0, *(len(row) for row in rows)])
    out.mkdir(parents=True, exist_ok=True)
    np.savez(
        out / "tokens.npz",
        token=np.concatenate(rows).astype(np.int32),
        window=np.repeat(np.arange(len(rows)), np.diff(starts)).astype(np.int32),
        text_of_window=np.array([text for _, text, _ in windows], dtype=np.int32),
        number_of_window=np.array([number for number, _, _ in windows], dtype=np.int32),
        starts=starts,
    )
    shape = (int(starts[-1]), model.config.hidden_size)
    file = out / "states.npy"
    mode = "r+" if file.exists() else "w+"
    states = np.lib.format.open_memmap(file, mode, np.float16, shape)
    done_file = out / "done.txt"
    done = int(done_file.read_text()) if done_file.exists() else 0
    began = time.time()
    for first in range(done, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        width = max(len(row) for row in batch)
        input_ids = torch.full((len(batch), width), tokenizer.pad_token_id)
        mask = torch.zeros_like(input_ids)
        for i, row in enumerate(batch):
            input_ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        with torch.inference_mode():
            hidden = model(input_ids=input_ids, attention_mask=mask).last_hidden_state.float()
        for i, row in enumerate(batch):
            states[starts[first + i] : starts[first + i + 1]] = hidden[i, : len(row)].numpy()
        done = first + len(batch)
        if first // BATCH % 20 == 0 or done == len(rows):
            states.flush()
            done_file.write_text(str(done))
            print(out, done, len(rows), f"{time.time() - began:.0f} s", flush=True)


def main() -> None:
    """Embed a collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("collection", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenizer.model_max_length = 10**9
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    model = AutoModel.from_pretrained(args.model, dtype=DTYPES[args.dtype]).eval()
    content = window_size(args.model) - 2
    for part in ("queries", "corpus"):
        texts = [str(row["text"]) for row in read_rows(args.collection / f"{part}.jsonl")]
        embed(model, tokenizer, texts, content, args.out / part, first_only=part == "queries")


if __name__ == "__main__":
    main()
