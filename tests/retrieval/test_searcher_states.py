"""Whatever is called in whatever order, and whatever fails: a searcher answers for the documents that it holds."""

import contextlib
import functools
import io
import itertools
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import mteb
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import mteb_longembed as longembed
from mteb_longembed.errors import InputError, StorageError
from mteb_longembed.retrieval.searcher import Searcher
from tests import tiny

TEXTS = [f"{tiny.text(3 + 7 * i, i)}." for i in range(12)]
QUERIES = [tiny.text(6, 3), TEXTS[4], tiny.text(5, 9)]
KINDS = ["+pi@64", "+pcw@64:size=16,vectors=window", "+pcw@64:size=16,short=cut,vectors=window,center=corpus"]
IDS = st.integers(0, len(TEXTS) - 1).map(lambda i: f"d{i}")
EXAMPLES = 6
FAULTS = st.none() | st.tuples(st.sampled_from([RuntimeError, KeyboardInterrupt, OSError]), st.integers(0, 5))


@contextlib.contextmanager
def fault(kind: type[BaseException] | None, number: int) -> Iterator[None]:
    """Let the model fail at one of its calls, or with OSError the disk at one of its bytes."""
    if kind is None:
        yield
    elif kind is OSError:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300 * number, limits[1]))
        try:
            # pytest keeps what is shown in a file, and a bar of tqdm that cannot be written keeps tqdm's lock for ever
            with contextlib.redirect_stderr(io.StringIO()):
                yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    else:
        # a function and no method: a patched method would make another model
        embedding, calls = torch.nn.functional.embedding, itertools.count()

        def failing(*args: Any, **kwargs: Any) -> torch.Tensor:
            if next(calls) == 2 * number:
                raise kind("injected")
            return embedding(*args, **kwargs)

        with mock.patch.object(torch.nn.functional, "embedding", failing):
            yield


@functools.cache
def vectors(name: str, text: str, is_query: bool) -> np.ndarray:
    """Unit vectors `[n, d]` of a text, by `encode` alone."""
    model: Any = loaded(name)
    rows = np.atleast_2d(np.asarray((model.encode_query if is_query else model.encode_document)([text])[0]))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@functools.cache
def loaded(name: str) -> Any:
    return longembed.load(name, device="cpu")


class Held:
    """A searcher, what it must hold, and which state of the folder it has seen."""

    def __init__(self, searcher: Searcher, texts: dict[str, str], seen: int | None) -> None:
        self.searcher, self.texts, self.seen = searcher, texts, seen


class Searching(RuleBasedStateMachine):
    base: Path
    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.index = Path(self.temporary.name, "index")
        self.on_disk: tuple[int, dict[str, str]] | None = None
        self.states = itertools.count()
        self.held = [Held(self.new(), {}, None) for _ in range(2)]
        # an addition that fails is seen at once where there are documents
        self.add(0, ["d0", "d1", "d2"], None)

    def teardown(self) -> None:
        self.temporary.cleanup()

    @property
    def name(self) -> str:
        return f"{self.base}{self.kind}"

    def new(self) -> Searcher:
        model: Any = mteb.get_model(self.name, device="cpu")
        if hasattr(model, "corpus_chunk_size"):
            model.corpus_chunk_size = 1  # so that most faults come after the first chunk
        return Searcher(model)

    def tried(self, held: Held, error: Any, call: Callable[[], Any]) -> bool:
        """Whether a call was done. One that failed has changed nothing."""
        try:
            with fault(*(error or (None, 0))):
                call()
        except BaseException:
            assert error is not None
            self.check(held, QUERIES[0])
            return False
        return True

    def check(self, held: Held, query: str) -> None:
        """Ids, order, scores and passages are those of plain cosines."""
        assert len(held.searcher) == len(held.texts)
        if not held.texts:
            with pytest.raises(InputError):
                held.searcher.search(query)
            return
        name = self.name.removesuffix(",center=corpus")
        rows = {key: vectors(name, text, False) for key, text in held.texts.items()}
        if "center" in self.name:
            mean = np.concatenate(list(rows.values())).mean(0)
            rows = {key: self.unit(row, mean) for key, row in rows.items()}
        scores = {key: float((row @ vectors(name, query, True)[0]).max()) for key, row in rows.items()}
        hits = held.searcher.search(query, k=20)
        assert {hit.id for hit in hits} == set(scores)
        for hit in hits:
            assert abs(hit.score - scores[hit.id]) < 1e-4
            assert hit.passage == held.texts[hit.id][hit.start : hit.end]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @staticmethod
    def unit(row: np.ndarray, mean: np.ndarray) -> np.ndarray:
        left = row - mean
        lengths = np.linalg.norm(left, axis=1, keepdims=True)
        return np.where(lengths <= 1e-6, row, left / np.maximum(lengths, 1e-12))

    @rule(which=st.integers(0, 1), ids=st.lists(IDS, min_size=3, max_size=5, unique=True), error=FAULTS)
    def add(self, which: int, ids: list[str], error: Any) -> None:
        held = self.held[which]
        new = {key: TEXTS[int(key[1:])] for key in ids if key not in held.texts}
        if new and self.tried(held, error, lambda: held.searcher.add(new, new.values())):
            held.texts |= new

    @rule(which=st.integers(0, 1), ids=st.sets(IDS, max_size=4), error=FAULTS)
    def remove(self, which: int, ids: set[str], error: Any) -> None:
        held = self.held[which]
        gone = [key for key in held.texts if key in ids]
        if self.tried(held, error, lambda: held.searcher.remove(gone)):
            held.texts = {key: text for key, text in held.texts.items() if key not in ids}

    @rule(which=st.integers(0, 1), query=st.sampled_from(QUERIES), error=FAULTS)
    def search(self, which: int, query: str, error: Any) -> None:
        held = self.held[which]
        if held.texts and error:
            self.tried(held, error, lambda: held.searcher.search(query))
        self.check(held, query)

    @rule(which=st.integers(0, 1), error=FAULTS)
    def save(self, which: int, error: Any) -> None:
        held = self.held[which]
        if self.on_disk is not None and held.seen not in (None, self.on_disk[0]):
            with pytest.raises(InputError, match="changed by another searcher"):
                held.searcher.save(self.index)
        elif self.tried(held, error, lambda: held.searcher.save(self.index)):
            if self.on_disk is None or held.texts != self.on_disk[1]:  # equal contents are one state
                self.on_disk = next(self.states), dict(held.texts)
            held.seen = self.on_disk[0]

    @precondition(lambda self: self.on_disk is not None)
    @rule(which=st.integers(0, 1))
    def open(self, which: int) -> None:
        state, texts = self.on_disk
        self.held[which] = Held(longembed.open_search(self.index, device="cpu"), dict(texts), state)
        self.check(self.held[which], QUERIES[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_searcher_is_a_dictionary_of_texts_with_exact_cosines(folder: Path, kind: str) -> None:
    # among the steps of this seed are those that corrupted the searcher of version 0.3
    machine = seed(4)(type("Machine", (Searching,), {"base": folder, "kind": kind}))
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    # shrinking takes minutes, and fifteen steps can be read
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES, stateful_step_count=15, suppress_health_check=checks, phases=[Phase.generate]
    )
    machine.TestCase().runTest()


@pytest.mark.parametrize("kind", KINDS)
def test_an_add_that_fails_in_the_middle_of_the_disk_changes_nothing(folder: Path, kind: str) -> None:
    """With more vectors than a buffer of Python holds, so that some of them are written."""
    searcher = longembed.search(f"{folder}{kind}", device="cpu")
    searcher.add(["a", "b"], TEXTS[:2])
    want = searcher.search(QUERIES[0])
    new = {f"n{i}": tiny.text(3, i) for i in range(100)}
    with fault(OSError, 14), pytest.raises(StorageError, match="cannot be written to"):
        searcher.add(new, new.values())
    assert searcher.search(QUERIES[0]) == want
    searcher.add(new, new.values())
    assert {hit.id for hit in searcher.search(QUERIES[0], k=200)} == {"a", "b", *new}
