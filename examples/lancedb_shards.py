"""Ask the shards that ray_corpus.py wrote: LanceDB holds windows and whole documents behind its indexes.

pip install mteb-longembed lancedb
python lancedb_shards.py documents/ windows/ my-model "Where is the key?"
"""

import argparse
from itertools import islice
from pathlib import Path

import lancedb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import torch
from lancedb.index import FTS, IvfPq
from lancedb.query import FullTextQuery, MatchQuery
from lancedb.table import Table

import mteb_longembed as longembed
from mteb_longembed.data.check import read_corpus
from mteb_longembed.errors import LongEmbedError

#: The table of whole documents.
DOCUMENTS = pa.schema({"document": pa.string(), "text": pa.string()})
#: Words of any length: by default words of 40 letters and more, such as hashes and keys, are never found.
WORDS = FTS(max_token_length=None)
#: Documents that are added together.
AT_ONCE = 1_000
#: Fewer vectors are compared one by one.
INDEX_FROM = 20_000


def rows_found(query, where: str | None = None, limit: int = 1_000) -> pd.DataFrame:
    """The best row of each document, best first; perhaps only of rows that a filter lets through."""
    if where:
        query = query.where(where, prefilter=True)
    return query.limit(limit).to_pandas().drop_duplicates("document").set_index("document")


def share(scores: pd.Series) -> pd.Series:
    """Scores divided by the highest."""
    return scores / scores.max()


def by_words(
    windows: Table, documents: Table, asked: FullTextQuery, where: str | None = None
) -> tuple[pd.Series, pd.DataFrame]:
    """The scores of documents, the whole one and its best window added up, and these windows."""
    found = rows_found(windows.search(asked), where)
    of_whole = rows_found(documents.search(asked), where)["_score"]
    scores = share(found["_score"]).add(share(of_whole), fill_value=0)
    return share(scores).sort_values(ascending=False), found


def best_windows(
    windows: Table, documents: Table, vector, question: str, where: str | None = None
) -> pd.DataFrame:
    """The best window of each document, by vectors and words: the mean of their scaled scores."""
    # as many of the nearest lists are searched; of `refine_factor` times as many rows the vectors are read
    near = windows.search(vector).distance_type("cosine").nprobes(20).refine_factor(5)
    near = rows_found(near, where)
    words, found = by_words(windows, documents, MatchQuery(question, "text"), where)
    scores = share(2 - near["_distance"]).add(words, fill_value=0) / 2
    best = near.combine_first(found)
    # a document of whose windows none was found has nothing to show
    return best.loc[scores[scores.index.isin(best.index)].sort_values(ascending=False).index]


def n_rows(folder: Path) -> int:
    """The rows of all shards. Their ends alone are read."""
    try:
        return ds.dataset(folder, format="parquet").count_rows()
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"{folder} cannot be read ({reason(error)}): repair that shard, or delete it if it is one of windows, then "
            "type the command of ray_corpus.py again."
        ) from error


def add_documents(database, documents: Path) -> None:
    """Make the table of whole documents. An id that occurs twice is an error."""
    table = database.create_table("documents", schema=DOCUMENTS)
    rows = ({"document": document.id, "text": document.joined} for document in read_corpus(documents))
    while some := list(islice(rows, AT_ONCE)):
        table.add(some)
    table.create_index("text", config=WORDS)


def add_windows(database, windows: Path) -> None:
    """Make the table of windows."""
    rows = ds.dataset(windows, format="parquet").scanner().to_reader()
    table = database.create_table("windows", rows)
    if table.count_rows() >= INDEX_FROM:
        width = table.schema.field("vector").type.list_size
        table.create_index("vector", config=IvfPq(distance_type="cosine", num_sub_vectors=width // 4))
    table.create_index("text", config=WORDS)


def filled(database, documents: Path, windows: Path) -> tuple[Table, Table]:
    """The tables of windows and documents, made from the shards if they are not there."""
    made = []
    for name, folder, add in (("windows", windows, add_windows), ("documents", documents, add_documents)):
        wanted = n_rows(folder)
        if name not in database.list_tables().tables:
            add(database, folder)
        table = database.open_table(name)
        if table.count_rows() != wanted:
            raise SystemExit(
                f"the table of {name} must have the {wanted:,} rows of {folder}, and has {table.count_rows():,}: "
                f"delete {database.uri}, then type the same command again."
            )
        made.append(table)
    return made[0], made[1]


def reason(error: Exception) -> str:
    """The last line of an error: LanceDB's may hold a traceback."""
    return str(error).strip().rpartition("\n")[2].rstrip(".")


def main() -> None:
    """Print the best window of each of the best documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=Path)
    parser.add_argument("windows", type=Path)
    parser.add_argument("name", help="the model that encoded the windows")
    parser.add_argument("question")
    parser.add_argument("--database", default="lance")
    parser.add_argument("--where", help="a filter, such as \"document != 'a'\"")
    args = parser.parse_args()
    try:
        (vector,) = longembed.load(args.name).encode_query([args.question])
        vector = torch.as_tensor(vector).flatten().float().cpu().numpy()
        tables = filled(lancedb.connect(args.database), args.documents, args.windows)
        best = best_windows(*tables, vector, args.question, args.where)
    except LongEmbedError as error:
        raise SystemExit(str(error)) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise SystemExit(
            f"{args.database} cannot be filled or asked ({reason(error)}): bring it back or delete it, then type the "
            f"same command again; the shards in {args.windows} stay."
        ) from error
    for name, row in best.head(10).iterrows():
        print(name, row["start"], row["end"], " ".join(row["text"].split()), sep="\t")


if __name__ == "__main__":
    main()
