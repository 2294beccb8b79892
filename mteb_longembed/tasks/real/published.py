"""The four tasks with real documents, from `dwzhu/LongEmbed`."""

from __future__ import annotations

from typing import Any

from mteb_longembed.tasks.metadata import CITATION, LongEmbedMetadata
from mteb_longembed.tasks.real.hub import REPOSITORY, REVISION, HubRetrieval, Size


def _metadata(folder: str, bibtex_citation: str, **fields: Any) -> LongEmbedMetadata:
    """The metadata of a task, from its folder in the data set and what it does not share with the others."""
    shared: dict[str, Any] = {
        "dataset": {"path": REPOSITORY, "revision": REVISION, "name": folder},
        "type": "Retrieval",
        "category": "t2t",
        "modalities": ["text"],
        "eval_splits": ["test"],
        "eval_langs": ["eng-Latn"],
        "main_score": "ndcg_at_10",
        "dialect": [],
        "sample_creation": "found",
    }
    return LongEmbedMetadata(**{**shared, **fields}, bibtex_citation=bibtex_citation + CITATION)


class LongEmbedNarrativeQA(HubRetrieval):
    """NarrativeQA: questions about a whole book or film script, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/1712.07040.
    """

    metadata = _metadata(
        "narrativeqa",
        name="LongEmbedNarrativeQA",
        description=(
            "Find the book or film script that a question is about: 355 documents of 50,000 words "
            "on average, 10,449 questions."
        ),
        reference="https://arxiv.org/abs/1712.07040",
        date=("1000-01-01", "2017-12-31"),
        domains=["Fiction", "Non-fiction", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
        license="not specified",
        annotations_creators="human-annotated",
        adapted_from=["LEMBNarrativeQARetrieval"],
        bibtex_citation=r"""
@article{kocisky-etal-2018-narrativeqa,
  author = {Ko{\v{c}}isk{\'y}, Tom{\'a}{\v{s}} and Schwarz, Jonathan and Blunsom, Phil and Dyer, Chris and
            Hermann, Karl Moritz and Melis, G{\'a}bor and Grefenstette, Edward},
  doi = {10.1162/tacl_a_00023},
  journal = {Transactions of the Association for Computational Linguistics},
  pages = {317--328},
  title = {The {N}arrative{QA} Reading Comprehension Challenge},
  url = {https://aclanthology.org/Q18-1023},
  volume = {6},
  year = {2018},
}
""",
    )
    size = Size(355, 326752.9972, 10449, 47.8945)


class LongEmbedQMSum(HubRetrieval):
    """QMSum: summaries of what was said in a meeting, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2104.05938.
    """

    metadata = _metadata(
        "qmsum",
        name="LongEmbedQMSum",
        description=(
            "Find the meeting transcript that a summary belongs to: 197 documents of 10,000 words "
            "on average, 1,527 summaries."
        ),
        reference="https://arxiv.org/abs/2104.05938",
        date=("1950-01-01", "2021-12-31"),
        domains=["Spoken", "Written"],
        task_subtypes=["Article retrieval"],
        license="mit",
        annotations_creators="human-annotated",
        adapted_from=["LEMBQMSumRetrieval"],
        bibtex_citation=r"""
@inproceedings{zhong-etal-2021-qmsum,
  author = {Zhong, Ming and Yin, Da and Yu, Tao and Zaidi, Ahmad and Mutuma, Mutethia and Jha, Rahul and
            Awadallah, Ahmed Hassan and Celikyilmaz, Asli and Liu, Yang and Qiu, Xipeng and Radev, Dragomir},
  booktitle = {Proceedings of the 2021 Conference of the North American Chapter of the Association for
               Computational Linguistics: Human Language Technologies},
  doi = {10.18653/v1/2021.naacl-main.472},
  pages = {5905--5921},
  title = {{QMS}um: A New Benchmark for Query-based Multi-domain Meeting Summarization},
  url = {https://aclanthology.org/2021.naacl-main.472},
  year = {2021},
}
""",
    )
    size = Size(197, 53335.8173, 1527, 433.5029)


class LongEmbedSummScreenFD(HubRetrieval):
    """SummScreenFD: summaries of television episodes, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2104.07091.
    """

    metadata = _metadata(
        "summ_screen_fd",
        name="LongEmbedSummScreenFD",
        description=(
            "Find the episode transcript that a summary belongs to: 336 documents of 5,600 words "
            "on average, 336 summaries."
        ),
        reference="https://arxiv.org/abs/2104.07091",
        eval_splits=["validation"],
        date=("2000-01-01", "2021-12-31"),
        domains=["Spoken", "Written"],
        task_subtypes=["Article retrieval"],
        license="not specified",
        annotations_creators="derived",
        adapted_from=["LEMBSummScreenFDRetrieval"],
        bibtex_citation=r"""
@inproceedings{chen-etal-2022-summscreen,
  author = {Chen, Mingda and Chu, Zewei and Wiseman, Sam and Gimpel, Kevin},
  booktitle = {Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics},
  doi = {10.18653/v1/2022.acl-long.589},
  pages = {8602--8615},
  title = {{S}umm{S}creen: A Dataset for Abstractive Screenplay Summarization},
  url = {https://aclanthology.org/2022.acl-long.589},
  year = {2022},
}
""",
    )
    size = Size(336, 30854.3274, 336, 591.4911)


class LongEmbed2WikiMultihopQA(HubRetrieval):
    """2WikiMultihopQA: questions that need two articles, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2011.01060.
    """

    metadata = _metadata(
        "2wikimqa",
        name="LongEmbed2WikiMultihopQA",
        description=(
            "Find the collection of encyclopedia articles that answers a two-step question: "
            "300 documents, 300 questions."
        ),
        reference="https://arxiv.org/abs/2011.01060",
        date=("1950-01-01", "2019-12-31"),
        domains=["Encyclopaedic", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
        license="not specified",
        annotations_creators="derived",
        adapted_from=["LEMBWikimQARetrieval"],
        bibtex_citation=r"""
@inproceedings{ho2020constructing,
  author = {Ho, Xanh and Nguyen, Anh-Khoa Duong and Sugawara, Saku and Aizawa, Akiko},
  booktitle = {Proceedings of the 28th International Conference on Computational Linguistics},
  pages = {6609--6625},
  title = {Constructing A Multi-hop {QA} Dataset for Comprehensive Evaluation of Reasoning Steps},
  year = {2020},
}
""",
    )
    size = Size(300, 37445.6033, 300, 67.57)
