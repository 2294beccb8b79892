"""Our rows in mteb's table of a benchmark."""

import mteb
from mteb.cache import ResultCache
from mteb.models.get_model_meta import get_model_metas

from tests.plugin.results import write_results


def test_the_table_of_a_benchmark_lists_our_models_beside_mtebs(tmp_path):
    """Also after mteb has read its registry, which it does once in a process."""
    benchmark = mteb.get_benchmark("LongEmbed+")
    scores = {task.metadata.name: 0.5 for task in benchmark.tasks}
    names = ["intfloat/e5-base-v2", "intfloat/e5-base-v2+pi@4096", "local/mini-rope+ntk@1024"]

    def listed() -> list[str]:
        return sorted(ResultCache(tmp_path).load_results(tasks=benchmark).get_benchmark_result()["Model"])

    n_metas = len(get_model_metas())
    for number, name in enumerate(names, 1):
        write_results(tmp_path, name, scores)
        assert listed() == names[:number]
    assert len(get_model_metas()) == n_metas
