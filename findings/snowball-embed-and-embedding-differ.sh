#!/usr/bin/env bash
# The English stemmer of Snowball does not bring "embed" and "embedding" to one stem.
#
# Expected: "embed", "embeds", "embedded" and "embedding" share a stem, as the four forms of "index" do,
# and a stem that is stemmed again stays as it is.
# Seen (PyStemmer 3.1.0): "embed" and "embeds" become "emb", as if -ed were an ending; "embedded" and "embedding" become "embed".
# Why it matters: BM25 with this stemmer (bm25s 0.3.16) gives the question "embed" a score of 0 for a document about embedding,
# and stemming texts twice changes their words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet PyStemmer==3.1.0 bm25s==0.3.16 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import bm25s
import Stemmer

stemmer = Stemmer.Stemmer("english")
embed = stemmer.stemWords(["embed", "embeds", "embedded", "embedding", "embeddings"])
index = stemmer.stemWords(["index", "indexes", "indexed", "indexing"])
texts = ["embedding long texts", "indexing long tables", "cooking soup"]
search = bm25s.BM25()
search.index(bm25s.tokenize(texts, stemmer=stemmer, show_progress=False), show_progress=False)
scores = {word: search.get_scores(stemmer.stemWords([word])).tolist() for word in ("embed", "index")}
print("PyStemmer", version("PyStemmer"), embed, index, "bm25s", version("bm25s"), scores)
assert embed == ["emb", "emb", "embed", "embed", "embed"] and index == ["index"] * 4
assert scores["embed"] == [0, 0, 0] and scores["index"][1] > 0
PYTHON
