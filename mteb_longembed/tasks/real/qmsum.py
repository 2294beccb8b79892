"""QMSum: summaries of what was said in a meeting."""

from __future__ import annotations

from mteb_longembed.tasks.metadata import CITATION, LongEmbedMetadata
from mteb_longembed.tasks.real.hub import REPOSITORY, REVISION, HubRetrieval, Size


class LongEmbedQMSum(HubRetrieval):
    """QMSum: summaries of what was said in a meeting, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2104.05938.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbedQMSum",
        description=(
            "Find the meeting transcript that a summary belongs to: 197 documents of 10,000 words "
            "on average, 1,527 summaries."
        ),
        dataset={"path": REPOSITORY, "revision": REVISION, "name": "qmsum"},
        reference="https://arxiv.org/abs/2104.05938",
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("1950-01-01", "2021-12-31"),
        domains=["Spoken", "Written"],
        task_subtypes=["Article retrieval"],
        license="mit",
        annotations_creators="human-annotated",
        dialect=[],
        sample_creation="found",
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
"""
        + CITATION,
    )
    size = Size(197, 53335.8173, 1527, 433.5029)
