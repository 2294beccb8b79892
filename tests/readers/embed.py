"""What an old sentence-transformers makes of folders; runs in its environment, which has none of our code.

python embed.py TASKS.json VECTORS.npz: TASKS holds the folders, the texts and a prompt or null of each name.
"""

import json
import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer


def main(tasks: str, vectors: str) -> None:
    wanted = json.loads(Path(tasks).read_text(encoding="utf-8"))
    made = {}
    for name, task in wanted.items():
        try:
            model = SentenceTransformer(task["folder"], device="cpu")
            made[name] = model.encode(task["texts"], prompt=task["prompt"])
        except Exception as error:
            made[name] = np.array(f"{type(error).__name__}: {error}")
    np.savez(vectors, **made)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
