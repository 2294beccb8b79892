#!/usr/bin/env bash
# Two different experiments of mteb have one folder of results.
#
# Expected: experiments that differ have folders of different names.
# Seen: {"a": "b_1"} and {"a_b": 1} are both a_b_1, and 1 and "1" are both a_1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet mteb==2.26.24 torch==2.13.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

from mteb.models.model_meta import ModelMeta

base = ModelMeta.create_empty()


def folder(**experiment: object) -> str | None:
    return base.model_copy(update={"experiment_kwargs": experiment}).experiment_name


names = [folder(a="b_1"), folder(a_b=1), folder(a=1), folder(a="1")]
print("mteb", version("mteb"), names)
assert names == ["a_b_1", "a_b_1", "a_1", "a_1"]
PYTHON
