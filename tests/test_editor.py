"""What an editor and a type checker know about our functions."""

import os
import re
import subprocess
import sys
from pathlib import Path

#: A user's script. Lines with `# wrong` are mistakes.
SCRIPT = """\
import mteb_longembed as longembed

reveal_type(longembed.extend("e5-base", "se", 4096, g=9, logn=False))
reveal_type(longembed.load("e5-base+ntk"))
longembed.foo  # wrong: no such function
longembed.extend("e5-base", 4096)  # wrong: no strategy
longembed.extend("e5-base", "se", "4k")  # wrong: not a number
longembed.load("e5-base", target_len=4096)  # wrong: part of the name
"""
#: Only these modules are read. Reading all takes a minute.
SETTINGS = """\
[mypy]
follow_imports = skip
[mypy-mteb_longembed,mteb_longembed.encoders.load,sentence_transformers.*]
follow_imports = normal
"""


def test_a_type_checker_finds_mistakes_and_knows_the_model(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "script.py"]
    # mypy does not find a package that is installed as editable
    env = {**os.environ, "MYPYPATH": str(Path(__file__).parents[1])}
    output = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True).stdout
    wrong = {number for number, line in enumerate(SCRIPT.splitlines(), 1) if "# wrong" in line}
    assert {int(line) for line in re.findall(r"script\.py:(\d+): error", output)} == wrong and len(wrong) == 4
    kinds = re.findall(r'Revealed type is ".*\.(\w+)"', output)
    assert kinds == ["SentenceTransformer"] * 2
