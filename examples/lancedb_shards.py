"""Ask the shards that ray_corpus.py wrote: LanceDB holds windows and whole documents behind its indexes.

pip install mteb-longembed lancedb
python lancedb_shards.py documents/ windows/ my-model "Where is the key?"
"""

import argparse
from pathlib import Path

import lancedb
import pandas as pd
import pyarrow.dataset as ds
from lancedb.index import FTS, IvfPq
from lancedb.query import FullTextQuery, MatchQuery
from lancedb.table import Table

import mteb_longembed as longembed

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


def filled(database, documents: Path, windows: Path) -> tuple[Table, Table]:
    """The tables of windows and documents, made from the shards if they are not there."""
    made = []
    id_and_text = {"document": ds.field("id"), "text": ds.field("text")}
    for name, folder, columns in (("windows", windows, None), ("documents", documents, id_and_text)):
        if name not in database.list_tables().tables:
            rows = ds.dataset(folder, format="parquet").scanner(columns).to_reader()
            table = database.create_table(name, rows)
            if columns is None and table.count_rows() >= INDEX_FROM:
                width = table.schema.field("vector").type.list_size
                table.create_index("vector", config=IvfPq(distance_type="cosine", num_sub_vectors=width // 4))
            table.create_index("text", config=FTS())
        made.append(database.open_table(name))
    return made[0], made[1]


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
    vector = longembed.load(args.name).encode_query([args.question])[0].reshape(-1).cpu().numpy()
    try:
        tables = filled(lancedb.connect(args.database), args.documents, args.windows)
        best = best_windows(*tables, vector, args.question, args.where)
    except (OSError, RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise SystemExit(
            f"{args.database} cannot be filled or asked ({why}): bring it back or delete it, then type the same "
            f"command again; the shards in {args.windows} stay."
        ) from error
    for name, row in best.head(10).iterrows():
        print(name, row["start"], row["end"], " ".join(row["text"].split()), sep="\t")


if __name__ == "__main__":
    main()
