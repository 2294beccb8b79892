"""The content of `index.json`: which files hold an index, and what made it."""

import json
from collections.abc import Mapping
from pathlib import Path

import xxhash
from pydantic import BaseModel, ConfigDict, ValidationError

from mteb_longembed.errors import IndexFolderError
from mteb_longembed.files import INDEX, Json, read_json

#: Version of this layout.
FORMAT = 3


class Segment(BaseModel):
    """A part of an array: one file."""

    model_config = ConfigDict(extra="forbid")

    file: str  #: path in the folder of the index
    rows: int  #: length of its first axis
    checksum: str  #: XXH3 of its bytes, 128 bits


class Entry(BaseModel):
    """An array of an index."""

    model_config = ConfigDict(extra="forbid")

    dtype: str  #: numpy's name of the type of numbers
    row_shape: list[int]  #: shape without the first axis
    segments: list[Segment]  #: one after the other


class Manifest(BaseModel):
    """The content of `index.json`."""

    model_config = ConfigDict(extra="forbid")

    format: int  #: version of the layout
    build: str  #: the random id of this version
    version: int  #: number of this version
    name: str  #: the name from which the scorer is made
    revision: str  #: revision of its results: of the model, and of the algorithms
    versions: dict[str, str]  #: versions of the algorithms and libraries that the index depends on
    documents: int  #: number of documents with text
    empty: list[str]  #: ids of documents without text
    language: str  #: language of the documents
    settings: Json  #: plain values of the scorer
    files: dict[str, Entry]  #: arrays by name

    def sealed(self) -> Json:
        """Return the fields with their checksum, as they are written."""
        fields = self.model_dump()
        return {**fields, "checksum": _checksum_of(fields)}

    @property
    def folders(self) -> set[str]:
        """The sub-folders that hold its segments."""
        return {segment.file.partition("/")[0] for entry in self.files.values() for segment in entry.segments}


def read_manifest(folder: Path) -> Manifest:
    """Return the content of `index.json`."""
    path = folder / INDEX
    if not path.is_file():
        raise IndexFolderError(f"{folder} holds no index, because it has no {INDEX}: build one with `index`.")
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise IndexFolderError(f"{path} cannot be read: {error} Build the index again.") from None
    found = content.get("format")
    if found != FORMAT:
        raise IndexFolderError(
            f"the index in {folder} must have format {FORMAT}, got {found}: build it again with this version."
        )
    if content.pop("checksum", None) != _checksum_of(content):
        raise IndexFolderError(f"{path} is damaged, because its checksum has changed: build the index again.")
    try:
        return Manifest.model_validate(content)
    except ValidationError:
        raise IndexFolderError(
            f"the index in {folder} was written by another version: build it again with this version."
        ) from None


def _checksum_of(fields: Mapping[str, object]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(fields, sort_keys=True).encode())
