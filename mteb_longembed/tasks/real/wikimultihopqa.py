"""2WikiMultihopQA: questions that need two encyclopedia articles."""

from __future__ import annotations

from mteb_longembed.tasks.metadata import CITATION, LongEmbedMetadata
from mteb_longembed.tasks.real.hub import REPOSITORY, REVISION, HubRetrieval, Size


class LongEmbed2WikiMultihopQA(HubRetrieval):
    """2WikiMultihopQA: questions that need two articles, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2011.01060.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbed2WikiMultihopQA",
        description=(
            "Find the collection of encyclopedia articles that answers a two-step question: "
            "300 documents, 300 questions."
        ),
        dataset={"path": REPOSITORY, "revision": REVISION, "name": "2wikimqa"},
        reference="https://arxiv.org/abs/2011.01060",
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("1950-01-01", "2019-12-31"),
        domains=["Encyclopaedic", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
        license="not specified",
        annotations_creators="derived",
        dialect=[],
        sample_creation="found",
        adapted_from=["LEMBWikimQARetrieval"],
        bibtex_citation=r"""
@inproceedings{ho2020constructing,
  author = {Ho, Xanh and Nguyen, Anh-Khoa Duong and Sugawara, Saku and Aizawa, Akiko},
  booktitle = {Proceedings of the 28th International Conference on Computational Linguistics},
  pages = {6609--6625},
  title = {Constructing A Multi-hop {QA} Dataset for Comprehensive Evaluation of Reasoning Steps},
  year = {2020},
}
"""
        + CITATION,
    )
    size = Size(300, 37445.6033, 300, 67.57)
