"""Reads of a bucket that repeat: while a plan is made, each object and each listing is asked for once.

A plan compares many stores, which look at the same records. On a disk that costs nothing; in an object store each look
is a request. What changes meanwhile is found by the next plan, as what changes after a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar, cast

from headrace.stores.object_path import ObjectPath
from headrace.stores.object_store import Listing, ObjectMeta, ObjectStore

_Answer = TypeVar("_Answer")
# For this thread alone: what runs in others must see what it has just written.
_STORES: ContextVar[dict[str, ReadOnceStore] | None] = ContextVar("reading_once", default=None)


class ReadOnceStore(ObjectStore):
    """A bucket whose answers are kept until :func:`reading_once` ends; later it asks again each time."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store.root, store.client)
        self.store = store
        self._answers: dict[Hashable, Any] | None = {}

    def get(self, key: str) -> tuple[bytes, str]:
        """See :class:`ObjectStore`."""
        return self._once(("get", key), lambda: self.store.get(key))

    def head(self, key: str) -> ObjectMeta:
        """See :class:`ObjectStore`."""
        return self._once(("head", key), lambda: self.store.head(key))

    def list_folder(self, folder: str) -> Listing:
        """See :class:`ObjectStore`."""
        return self._once(("list", folder), lambda: self.store.list_folder(folder))

    def has_objects(self, folder: str) -> bool:
        """See :class:`ObjectStore`."""
        return self._once(("has", folder), lambda: self.store.has_objects(folder))

    def forget(self) -> None:
        """Forget all answers, and keep none from now on."""
        self._answers = None

    def _once(self, question: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        answers = self._answers
        if answers is None:
            return ask()
        if question not in answers:
            try:
                answers[question] = ask()
            except FileNotFoundError as error:
                answers[question] = error
        answer = answers[question]
        if isinstance(answer, FileNotFoundError):
            raise FileNotFoundError(*answer.args)
        return cast("_Answer", answer)


@contextmanager
def reading_once() -> Iterator[None]:
    """Within this context, this thread asks buckets for each object once; nothing may be written in it."""
    token = _STORES.set({})
    try:
        yield
    finally:
        for store in (_STORES.get() or {}).values():
            # A path that was made meanwhile may still be used.
            store.forget()
        _STORES.reset(token)


def uncached(path: ObjectPath) -> ObjectPath:
    """The path, with a request for each read, also within :func:`reading_once`."""
    return replace(path, store=path.store.store) if isinstance(path.store, ReadOnceStore) else path


def once_if_asked(store: ObjectStore) -> ObjectStore:
    """The store, or one that keeps its answers within :func:`reading_once`."""
    stores = _STORES.get()
    if stores is None:
        return store
    if store.root not in stores:
        stores[store.root] = ReadOnceStore(store)
    return stores[store.root]
