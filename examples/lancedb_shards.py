"""Ask the shards that ray_corpus.py wrote: LanceDB holds them behind an index of vectors and one of words.

pip install mteb-longembed lancedb
python lancedb_shards.py windows/ my-model "Where is the key?" --database lance/
"""

import argparse
from pathlib import Path

import lancedb
import pyarrow.dataset as ds
from lancedb.index import FTS, IvfPq

import mteb_longembed as longembed
from mteb_longembed.errors import StorageError

#: Fewer vectors are compared one by one.
INDEX_FROM = 20_000


def opened(windows: Path, database: str) -> lancedb.table.Table:
    """The table of the windows. One that is gone is made again from the shards."""
    try:
        found = lancedb.connect(database)
        if "windows" in found.list_tables().tables:
            return found.open_table("windows")
        table = found.create_table("windows", ds.dataset(windows, format="parquet").scanner().to_reader())
        if table.count_rows() >= INDEX_FROM:
            table.create_index("vector", config=IvfPq(distance_type="cosine"))
        table.create_index("text", config=FTS())
    except (OSError, RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise StorageError(
            f"{database} cannot be opened or filled ({why}): bring it back, or name another folder, then type the same "
            f"command again; the shards in {windows} stay."
        ) from error
    return table


def main() -> None:
    """Print the best window of each of the best documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("windows", type=Path)
    parser.add_argument("name", help="the model that encoded the windows")
    parser.add_argument("question")
    parser.add_argument("--database", default="lance")
    parser.add_argument("--where", help="a filter, such as \"document != 'a'\"")
    args = parser.parse_args()
    try:
        table = opened(args.windows, args.database)
    except StorageError as error:
        raise SystemExit(str(error)) from error
    vector = longembed.load(args.name).encode_query([args.question])[0].reshape(-1).cpu().numpy()
    query = table.search(query_type="hybrid").vector(vector).text(args.question).distance_type("cosine")
    if args.where:
        query = query.where(args.where, prefilter=True)
    best: dict[str, dict] = {}
    for row in query.limit(100).to_list():
        best.setdefault(row["document"], row)
    for row in list(best.values())[:10]:
        print(row["document"], row["start"], row["end"], " ".join(row["text"].split()), sep="\t")


if __name__ == "__main__":
    main()
