"""Secrets by scope and key, from the environment, files or a keyring; resolves references and redacts values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from headrace.errors import PipelineError
from headrace.model.location import Location

PREFIX = "HEADRACE_SECRET_"
DIRECTORY_VARIABLE = "HEADRACE_SECRETS_DIR"
REDACTED = "[REDACTED]"
# A shorter value of an environment variable ("1", "dev") is common text, and not a secret.
_SHORTEST_VARIABLE = 4
# A shorter line of a long value reveals nothing, and is common text.
_SHORTEST_LINE = 4
# At the end of a truncated text, fewer characters of a value may show.
_SHORTEST_START = 6
_CUT = " ..."
_ARMOUR = re.compile(r"-----(?:BEGIN|END) [^-\n]+-----")
_SAFE_PART = re.compile(r"[\w@-][\w.@-]*")
_REFERENCE = re.compile(r"\$\{(?P<kind>secret|env):(?P<name>[^}]*)\}|\{\{\s*secrets/(?P<vendor>[^}]*?)\s*\}\}")


def _no_keyring(_scope: str, _key: str) -> str | None:
    return None


class Secrets:
    """Looks up secrets, and stores every value that it returned, to redact it in texts.

    A secret is the variable ``HEADRACE_SECRET_<SCOPE>_<KEY>``, otherwise the file ``<directory>/<scope>/<key>``,
    otherwise in a keyring, which cannot list its contents. Safe to use from several threads.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        directory: Path | None = None,
        keyring: Callable[[str, str], str | None] = _no_keyring,
    ) -> None:
        self._environ = environ
        self._directory = directory
        self._keyring = keyring
        # Each value with the forms that it can have in texts.
        self._registered: dict[str, frozenset[str]] = {}

    def __repr__(self) -> str:
        return "Secrets()"

    def get(self, scope: str, key: str, *, location: Location | None = None) -> str:
        """The value of a secret; one line break at the end of a file is removed.

        Raises:
            PipelineError: SECRET.NOT_FOUND, which names the possible sources of the value.
        """
        value = self._environ.get(variable_name(scope, key))
        if value is None:
            value = self._from_file(scope, key)
        if value is None:
            value = self._keyring(scope, key)
        if value is None:
            file = f"{self._directory or f'<{DIRECTORY_VARIABLE}>'}/{scope}/{key}"
            variable = variable_name(scope, key)
            raise PipelineError(
                "SECRET.NOT_FOUND", location=location, scope=scope, key=key, variable=variable, file=file
            )
        self.register(value)
        return value

    def register(self, value: str) -> None:
        """Redact a value from now on, whatever its source; blank values are ignored."""
        if value.strip():
            self._registered.setdefault(value, _forms(value))

    def list(self, scope: str) -> tuple[str, ...]:
        """The keys of a scope, sorted; those from variables are in lower case."""
        keys = set(self._files(scope))
        taken = {_upper(key) for key in keys}
        start = f"{PREFIX}{_upper(scope)}_"
        for name in self._environ:
            if name.startswith(start) and name[len(start) :] and name[len(start) :] not in taken:
                keys.add(name[len(start) :].lower())
        return tuple(sorted(keys))

    def scopes(self) -> tuple[str, ...]:
        """The scopes, sorted; the scope of a variable is the first word of its name, unless a folder name matches."""
        folders = set(self._folders())
        found = set(folders)
        for name in self._environ:
            rest = name[len(PREFIX) :]
            if not name.startswith(PREFIX) or any(rest.startswith(f"{_upper(folder)}_") for folder in folders):
                continue
            scope, separator, key = rest.partition("_")
            if scope and separator and key:
                found.add(scope.lower())
        return tuple(sorted(found))

    def known_values(self) -> frozenset[str]:
        """Every value returned so far."""
        return frozenset(list(self._registered))

    def redact(self, text: str) -> str:
        """*text* with every value returned so far replaced.

        Also replaces values encoded in JSON, a URL or base64, single lines of a value, such as a line of a key in a
        traceback, and the start of a value at the end of a truncated text.
        """
        forms = {form for known in list(self._registered.values()) for form in known}
        spans = sorted(
            {span for form in forms if form in text for span in _occurrences(form, text)}
            | {span for form in forms for span in _start_at_end(form, text)}
        )
        pieces: list[str] = []
        position = 0
        for start, end in spans:
            # Values may overlap, and the rest of one must not show.
            if start >= position:
                pieces += (text[position:start], REDACTED)
            position = max(position, end)
        return "".join((*pieces, text[position:]))

    def _from_file(self, scope: str, key: str) -> str | None:
        if self._directory is None or not (_SAFE_PART.fullmatch(scope) and _SAFE_PART.fullmatch(key)):
            return None
        try:
            return (self._directory / scope / key).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError):
            return None

    def _folders(self) -> Iterator[str]:
        if self._directory and self._directory.is_dir():
            yield from (path.name for path in self._directory.iterdir() if _usable(path) and path.is_dir())

    def _files(self, scope: str) -> Iterator[str]:
        if scope in set(self._folders()) and self._directory:
            yield from (path.name for path in (self._directory / scope).iterdir() if _usable(path) and path.is_file())


def resolve(text: str, secrets: Secrets, environ: Mapping[str, str], *, location: Location | None = None) -> str:
    """*text* with ``${secret:scope/key}``, ``{{secrets/scope/key}}`` and ``${env:NAME}`` replaced by their values.

    Values are not resolved again; any other ``${...}`` stays. Values of variables, unless they are very short, are
    redacted like secrets.

    Raises:
        PipelineError: SECRET.NOT_FOUND, SECRET.NO_VARIABLE or SECRET.BAD_REFERENCE.
    """

    def value(match: re.Match[str]) -> str:
        if match["kind"] == "env":
            return _variable(match["name"], secrets, environ, location)
        scope, separator, key = (match["vendor"] or match["name"] or "").partition("/")
        if not (scope and separator and key):
            raise PipelineError("SECRET.BAD_REFERENCE", location=location, reference=match.group())
        return secrets.get(scope, key, location=location)

    return _REFERENCE.sub(value, text)


def has_reference(text: str) -> bool:
    """Whether a text contains something that :func:`resolve` replaces."""
    return _REFERENCE.search(text) is not None


def _variable(name: str, secrets: Secrets, environ: Mapping[str, str], location: Location | None) -> str:
    value = environ.get(name)
    if value is None:
        raise PipelineError("SECRET.NO_VARIABLE", location=location, name=name)
    if len(value) >= _SHORTEST_VARIABLE:
        secrets.register(value)
    return value


def variable_name(scope: str, key: str) -> str:
    """The environment variable that can hold a secret."""
    return f"{PREFIX}{_upper(scope)}_{_upper(key)}"


def _upper(part: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", part.upper())


def _usable(path: Path) -> bool:
    return _SAFE_PART.fullmatch(path.name) is not None


def _forms(value: str) -> frozenset[str]:
    """Every text that reveals the value: itself, each of its lines, and the lines between its PEM armour."""
    pieces = {value, value.strip(), base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        secret = [line for line in lines if not _ARMOUR.fullmatch(line)]
        pieces |= {line for line in secret if len(line) >= _SHORTEST_LINE}
        # Libraries store a key without its line breaks.
        pieces.add("".join(secret))
    return frozenset(form for piece in pieces if piece for form in _encodings(piece))


def _encodings(piece: str) -> set[str]:
    return {piece, json.dumps(piece)[1:-1], json.dumps(piece, ensure_ascii=False)[1:-1], quote(piece, safe="")}


def _start_at_end(form: str, text: str) -> Iterator[tuple[int, int]]:
    """The span at the end of a truncated text that is the start of a form."""
    end = len(text.removesuffix(_CUT))
    for length in range(min(len(form) - 1, end), _SHORTEST_START - 1, -1):
        if text.startswith(form[:length], end - length):
            yield end - length, end
            return


def _occurrences(form: str, text: str) -> Iterator[tuple[int, int]]:
    for match in re.finditer(f"(?={re.escape(form)})", text):
        yield match.start(), match.start() + len(form)
