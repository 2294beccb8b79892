"""(b) Only tokenisation: ids of the first tokens of long documents, with full reading and with ours.

`python benchmarks/tokenising.py --words 50000 --lengths 512 4096 --docs 4 --rounds 5`
"""

from __future__ import annotations

import argparse

from materials import MIXES, alternating, documents, table, tokenizer

from mteb_longembed.encoders.engine.tokenizing import CutTokenizer, IdCache


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 4096, 32_768])
    parser.add_argument("--docs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    MIXES["words"] = (int(args.words * 5.7),)
    texts = documents("words", args.docs)
    rows = []
    for length in args.lengths:
        stock = tokenizer(length)
        cut = CutTokenizer(stock, IdCache(0))
        run_stock = lambda stock=stock: stock(texts, truncation=True)["input_ids"]  # noqa: E731
        run_ours = lambda cut=cut, length=length: cut(texts, length)  # noqa: E731
        assert [ids.tolist() for ids in run_ours()] == run_stock(), "ids differ"
        theirs, ours = alternating(args.rounds, run_stock, run_ours)
        words = sum(len(text.split()) for text in texts) // len(texts)
        rows.append([length, words, 1e3 * theirs / len(texts), 1e3 * ours / len(texts), theirs / ours])
    print(table(["tokens kept", "words a document", "stock ms", "ours ms", "stock / ours"], rows))


if __name__ == "__main__":
    main()
