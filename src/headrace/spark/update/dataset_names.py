"""Maps every spelling of the pipeline's names to the name in the session's catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from headrace.errors import PipelineError
from headrace.graph.session_names import SessionName, session_name
from headrace.model.local_path import local_path
from headrace.model.names import InvalidName, Naming, QualifiedName, quoted, split_name
from headrace.settings.storage import StorageLayout
from headrace.sql.lexer import Kind, lex
from headrace.sql.rewrite import rewrite_names
from headrace.stores.paths import StoragePath, storage_path

# Leaves the catalog in a name that has one.
_AS_WRITTEN = Naming()


class Names:
    """The names of one pipeline. Spark refuses three-part names and ``LIVE.x``; this class resolves them."""

    def __init__(self, layout: StorageLayout, naming: Naming) -> None:
        self._layout = layout
        self._naming = naming
        self._known: dict[QualifiedName, SessionName] = {}
        # The same names by their key in the session, and by the folder of their table.
        self._by_key: dict[str, QualifiedName] = {}
        self._folders: dict[StoragePath, QualifiedName] = {}
        self._reads: set[QualifiedName] | None = None
        # Raises for the name, of three parts, of a table that a metastore has.
        self.refuse_foreign: Callable[[QualifiedName], object] = str

    def recording(self, reads: set[QualifiedName]) -> Names:
        """The same names. Adds each name that is looked up through it to *reads*."""
        found = Names(self._layout, self._naming)
        found._known, found._by_key, found._folders = self._known, self._by_key, self._folders
        found._reads, found.refuse_foreign = reads, self.refuse_foreign
        return found

    def add(self, names: Iterable[QualifiedName], views: Iterable[QualifiedName]) -> None:
        """Add names of the pipeline, so that every spelling finds them."""
        without_database = set(views)
        for name in names:
            known = session_name(self._naming, name, view=name in without_database)
            if self._known.get(name) == known:
                continue
            self.remove(name)
            self._known[name] = known
            self._by_key[known.key] = name
            self._folders[self._folder(name)] = name

    def remove(self, name: QualifiedName) -> None:
        """Remove a name."""
        known = self._known.pop(name, None)
        if known is not None:
            self._by_key.pop(known.key, None)
            self._folders.pop(self._folder(name), None)

    def knows(self, name: QualifiedName) -> bool:
        """Whether a name was added."""
        return name in self._known

    def of(self, name: QualifiedName) -> SessionName:
        """The session's name of a dataset or of any other table."""
        return self._known.get(name) or session_name(self._naming, name, view=False)

    @property
    def databases(self) -> frozenset[str]:
        """The databases of the known names."""
        return frozenset(known.database for known in self._known.values() if known.database is not None)

    def dataset_of(self, session_text: str) -> QualifiedName | None:
        """The dataset with this name in the session (one or two parts), or None."""
        try:
            parts = split_name(session_text)
        except InvalidName:
            return None
        if len(parts) > 2:
            parts = parts[-2:]
        found = self._by_key.get(".".join(("", *parts)[-2:]).casefold())
        if found is None and len(parts) == 1:
            found = self._by_key.get(f"{self._naming.schema}.{parts[0]}".casefold())
        return found

    def to_session_name(self, text: str, naming: Naming) -> str:
        """Translate a user's spelling of a table to the session's. Unknown names stay unchanged."""
        try:
            name = naming.canonical(text)
        except InvalidName:
            self._refuse_own_path_in_name(text)
            return text
        return self._session_text(name, naming) or self._foreign_text(_AS_WRITTEN.canonical(text)) or text

    def to_session_query(self, text: str, naming: Naming) -> str:
        """Translate every spelling of the pipeline's names in a query to the session's."""
        for token in lex(text).tokens:
            if token.kind is Kind.QUOTED and "/" in token.text:
                self.refuse_own_path(token.text.strip("`"))
        known = rewrite_names(text, naming, partial(self._session_text, naming=naming))
        return rewrite_names(known, _AS_WRITTEN, self._foreign_text)

    def _session_text(self, name: QualifiedName, naming: Naming) -> str | None:
        """The session's spelling of a known name, or None.

        Temporary views have no schema, so an earlier USE does not hide them.
        """
        known = self._known.get(name)
        if known is None and name == naming.canonical(quoted(name.name)):
            view = QualifiedName(name.name)
            found = self._known.get(view)
            known, name = (found, view) if found is not None and found.database is None else (None, name)
        if known is not None and self._reads is not None:
            self._reads.add(name)
        return known.text if known else None

    def _foreign_text(self, name: QualifiedName) -> str | None:
        """None; raises for a table of a metastore."""
        if name.catalog is not None:
            self.refuse_foreign(name)
        return None

    def _refuse_own_path_in_name(self, text: str) -> None:
        """Check the path in a spelling such as ``delta.`/path```, which is not the name of a dataset."""
        try:
            parts = split_name(text)
        except InvalidName:
            return
        for part in parts:
            if "/" in part:
                self.refuse_own_path(part)

    def refuse_own_path(self, path: str) -> None:
        """Refuse a path into a table of the pipeline.

        Raises:
            PipelineError: GRAPH.OWN_TABLE_BY_PATH.
        """
        resolved = storage_path(local_path(path)).resolve()
        for folder in (resolved, *resolved.parents):
            if folder in self._folders:
                raise PipelineError("GRAPH.OWN_TABLE_BY_PATH", name=self._folders[folder], path=path)

    def _folder(self, name: QualifiedName) -> StoragePath:
        return storage_path(self._layout.table(self._naming, name)).resolve()
