"""What mkdocs does besides docs/*.md: the README is the first page, and the texts of the root are pages too."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: Files of the root that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Take the repository's address from setup.cfg, its one place."""
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    config["repo_url"] = settings["metadata"]["url"]
    config["repo_name"] = "mteb-longembed"
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the root."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        content = rewritten(text, ROOT, config["repo_url"])
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Let links out of docs/ lead to the page or to the repository."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return rewritten(markdown, (ROOT / "docs" / page.file.src_uri).parent, config["repo_url"])


def rewritten(text: str, folder: Path, repository: str) -> str:
    """The text with links that hold on the site.

    Args:
        text: Markdown whose links hold in the repository.
        folder: where the text lies.
        repository: where files that are no pages can be read.
    """

    def link(match: re.Match[str]) -> str:
        target, anchor = (folder / match[1]).resolve(), match[2] or ""
        inside = target.relative_to(ROOT).as_posix()
        if inside in PAGES:
            where = PAGES[inside]
        elif inside.startswith("docs/") and target.is_file():
            where = inside.removeprefix("docs/")
        else:
            kind = "tree" if target.is_dir() else "blob"
            return f"]({repository}/{kind}/main/{inside}{anchor})"
        if folder != ROOT:
            depth = len(folder.relative_to(ROOT / "docs").parts)
            where = "../" * depth + where
        return f"]({where}{anchor})"

    return _LINK.sub(link, text)
