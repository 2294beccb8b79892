from mteb_longembed.reports.scores.public_results import public_lines, source


def test_the_shipped_file_is_that_of_its_commit():
    assert "at f4cc6c8b365a, CC0" in source()
    assert len(public_lines()) == 205
    assert sum(line.scores["Average"].complete is not None for line in public_lines()) == 166


def test_facts_of_mteb_stand_beside_the_scores():
    models = {line.model.name.full: line.model for line in public_lines()}
    assert models["Qwen/Qwen3-Embedding-0.6B"].tokens == 32768
    assert models["minishlab/potion-base-8M"].tokens is None  # without a limit
    assert models["mteb/baseline-bm25s"].n_parameters in (0, None)
