"""A saved index behind FastAPI.

    mteb-longembed index mini-rope+hybrid --corpus docs.jsonl --to my-index
    INDEX=my-index uvicorn fastapi_search:app --workers 2

Each worker maps the same files, so the index is in memory once. To change it, call `add` in one other process and
restart the workers: they keep the version that they opened.
"""

import os
from dataclasses import asdict

from fastapi import FastAPI

import mteb_longembed as longembed

searcher = longembed.open_index(os.environ["INDEX"])
app = FastAPI()


@app.get("/search")
def search(question: str, k: int = 5) -> list[dict[str, object]]:
    """Return the best documents of a question with the passages that answer it."""
    hits = searcher.search(question, k)
    return [{key: value for key, value in asdict(hit).items() if key != "document"} for hit in hits]
