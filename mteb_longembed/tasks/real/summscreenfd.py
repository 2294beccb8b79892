"""SummScreenFD: summaries of television episodes."""

from __future__ import annotations

from mteb_longembed.tasks.metadata import CITATION, LongEmbedMetadata
from mteb_longembed.tasks.real.hub import REPOSITORY, REVISION, HubRetrieval, Size


class LongEmbedSummScreenFD(HubRetrieval):
    """SummScreenFD: summaries of television episodes, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/2104.07091.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbedSummScreenFD",
        description=(
            "Find the episode transcript that a summary belongs to: 336 documents of 5,600 words "
            "on average, 336 summaries."
        ),
        dataset={"path": REPOSITORY, "revision": REVISION, "name": "summ_screen_fd"},
        reference="https://arxiv.org/abs/2104.07091",
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["validation"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("2000-01-01", "2021-12-31"),
        domains=["Spoken", "Written"],
        task_subtypes=["Article retrieval"],
        license="not specified",
        annotations_creators="derived",
        dialect=[],
        sample_creation="found",
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
"""
        + CITATION,
    )
    size = Size(336, 30854.3274, 336, 591.4911)
