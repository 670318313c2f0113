"""Compares ``pip install`` lines with the Python environment that runs the update.

Nothing is ever installed: an update that changed its own environment would not be the update that was checked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

# Options of pip about how to install, not what.
_SWITCHES = frozenset(
    {
        *("-q", "-qq", "-qqq", "--quiet", "-v", "--verbose", "-U", "--upgrade", "--pre", "--user", "-y", "--no-deps"),
        *("--force-reinstall", "--no-cache-dir", "--disable-pip-version-check", "--no-build-isolation"),
        *("--ignore-installed", "-I", "--prefer-binary"),
    }
)
_WITH_VALUE = frozenset(
    {
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--upgrade-strategy"),
        *("--progress-bar", "--timeout", "--retries"),
    }
)
_FILES = frozenset({"-r", "--requirement"})
_EGG = re.compile(r"[#&]egg=(?P<name>[\w.-]+)")

# The user and password of a URL. A password may contain anything, so this matches up to the last "@" of the word.
_CREDENTIALS = re.compile(r"//\S*@")


class UnreadableRequirement(ValueError):
    """A requirement that names no package to compare with the environment.

    ``str()`` says why, without the users and passwords of URLs.
    """

    def __init__(self, why: str) -> None:
        super().__init__(_CREDENTIALS.sub("//...@", why))


@dataclass(frozen=True)
class UnmetRequirement:
    """A requirement that the environment does not meet; ``found`` is the installed version, None for none."""

    requirement: str
    found: str | None


def printable_words(words: str) -> str:
    """The arguments of ``pip install`` without possible secrets: values of options, users and passwords of URLs."""
    try:
        pending = shlex.split(words, comments=True)
    except ValueError:
        pending = words.split()
    shown: list[str] = []
    while pending:
        option, value = _option(pending.pop(0))
        if option in _FILES:
            shown += [option, *([value] if value is not None else pending[:1])]
            pending = pending if value is not None else pending[1:]
        elif option in _WITH_VALUE:
            shown += [option, "..."]
            pending = pending if value is not None else pending[1:]
        elif option.startswith("-") and option not in _SWITCHES:
            # The next word may be its value.
            shown += [option, "..."] if value is not None or pending else [option]
            break
        else:
            shown.append(_CREDENTIALS.sub("//...@", option))
    return " ".join(shown)


def installed_version(package: str) -> str | None:
    """The version of a package in this environment, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def requirements_of(words: str, folder: Path) -> tuple[Requirement, ...]:
    """The requirements in the arguments of ``pip install``.

    Args:
        words: packages and options.
        folder: the base of the paths after ``-r``.

    Raises:
        Unreadable: no requirement, or one that names no package.
    """
    found = tuple(_requirements(words, folder, frozenset()))
    if not found:
        raise UnreadableRequirement("it does not name a package")
    return found


def unmet_requirement(
    requirement: Requirement, version_of: Callable[[str], str | None] = installed_version
) -> UnmetRequirement | None:
    """The requirement if the environment does not meet it, or None if it does, or need not."""
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    found = version_of(requirement.name)
    try:
        met = found is not None and requirement.specifier.contains(Version(found), prereleases=True)
    except InvalidVersion:
        met = False
    return None if met else UnmetRequirement(f"{requirement.name}{requirement.specifier}", found)


def _requirements(words: str, folder: Path, seen: frozenset[Path]) -> Iterator[Requirement]:
    try:
        pending = shlex.split(words, comments=True)
    except ValueError as error:
        raise UnreadableRequirement(f"it cannot be parsed: {error}") from error
    while pending:
        option, value = _option(pending.pop(0))
        if option in _FILES:
            yield from _listed(folder, _value(option, pending) if value is None else value, seen)
        elif option in _WITH_VALUE:
            _ = _value(option, pending) if value is None else value
        elif option.startswith("-") and option not in _SWITCHES:
            raise UnreadableRequirement(f'unknown option "{option}"')
        elif not option.startswith("-"):
            yield _requirement(option)


def _option(word: str) -> tuple[str, str | None]:
    """Split a word into an option and its value, if it has one; other words stay whole."""
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        return option, value if equals else None
    if word.startswith("-") and len(word) > 2 and word not in _SWITCHES:
        return word[:2], word[2:]
    return word, None


def _value(option: str, pending: list[str]) -> str:
    if not pending:
        raise UnreadableRequirement(f'option "{option}" needs a value')
    return pending.pop(0)


def _listed(folder: Path, name: str, seen: frozenset[Path]) -> Iterator[Requirement]:
    file = (folder / name).resolve()
    if file in seen:
        return
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableRequirement(f'file "{name}" cannot be read') from error
    for line in lines:
        # Hashes follow a backslash at the end of the line before.
        words = line.rstrip("\\").strip()
        if words.startswith("--hash"):
            continue
        if words.startswith("-"):
            yield from _requirements(words, file.parent, seen | {file})
        elif words and not words.startswith("#"):
            yield _requirement(re.split(r"\s#|\s--hash", words)[0].strip())


def _requirement(text: str) -> Requirement:
    if text.endswith(".whl"):
        try:
            name, version, *_ = parse_wheel_filename(text.rpartition("/")[2])
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise UnreadableRequirement(f'"{text}" is not the name of a wheel') from error
        return Requirement(f"{name}=={version}")
    egg = _EGG.search(text)
    try:
        return Requirement(egg["name"] if egg else text)
    except InvalidRequirement as error:
        raise UnreadableRequirement(f'"{text}" does not name a package') from error
