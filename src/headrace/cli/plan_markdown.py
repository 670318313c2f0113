"""A plan as Markdown, for a comment of a pull request. Names and texts of a project cannot add Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace.cli.printable import printable
from headrace.model.change_classes import ChangeClass
from headrace.plan.changes import Change, OldRows
from headrace.plan.code_diff import CodeDiff
from headrace.plan.steps import Plan

# Hosts refuse longer comments, such as those above 65,536 characters.
_MOST_CHARACTERS = 40_000
_HEADER = ("| change | what | why | rows cleared | read again | below | undone by |", "|---|---|---|--:|---|---|---|")
# After it, a host makes a link to a person, or to an issue.
_LINKING = re.compile("[@#]")
_WORD_JOINER = "\u2060"


@dataclass(frozen=True)
class PlanMarkdown:
    """Renders plans.

    Attributes:
        redact: removes secrets from a text. Escaped, they would not be found.
    """

    redact: Callable[[str], str]

    def render(self, plan: Plan, diff: CodeDiff) -> str:
        """The changes of a plan as a table; below it, folded, its steps and the code that changed.

        Args:
            plan: with its changes.
            diff: of its changed flows.
        """
        changes = [change for change in plan.changes if change.change_class is not ChangeClass.DATA]
        lines = ["### Headrace plan", ""]
        if changes:
            lines += [*_HEADER, *(self._row(change) for change in changes), ""]
        else:
            lines += ["Nothing to do." if plan.empty else "Nothing that is deployed changes.", ""]
        for change in changes:
            if change.error is not None:
                way_on = f" To continue: {self._text(change.way_on)}" if change.way_on else ""
                lines += [f"{self._code(change.name)} is blocked: {self._code(change.error.code)}.{way_on}", ""]
            if change.old_rows is not None:
                lines += [*self._old_rows(change, change.old_rows), ""]
        lines += _folded("Steps", "", self.redact(replace(plan, changes=()).describe()))
        if diff.flows:
            lines += ["", *_folded("Code that changed", "diff", self.redact(diff.describe()))]
        return "\n".join(lines)

    def _row(self, change: Change) -> str:
        cells = (
            f"**{change.change_class.value.replace('_', ' ')}**",
            self._code(change.name),
            self._text(change.why),
            str(change.rows_cleared or ""),
            self._text(change.work.describe() if change.work is not None else ""),
            ", ".join(map(self._code, change.downstream)),
            self._text(change.undo_text),
        )
        return f"| {' | '.join(cells)} |"

    def _old_rows(self, change: Change, old: OldRows) -> Iterator[str]:
        yield f"{self._code(change.name)} keeps {self._text(old.describe())}, written by older code."
        if old.mend:
            yield f"To compute them again: {self._code(old.mend)}."
        if old.caution:
            yield f"But {self._text(old.caution)}."

    def _text(self, content: str) -> str:
        return as_text(self.redact(content))

    def _code(self, content: str) -> str:
        return as_code(self.redact(content))


def _folded(title: str, language: str, content: str) -> Iterator[str]:
    shown = printable(content, keep="\n\t")
    if len(shown) > _MOST_CHARACTERS:
        kept = shown[:_MOST_CHARACTERS].rsplit("\n", 1)[0]
        shown = f"{kept}\n... {shown.count(chr(10)) - kept.count(chr(10))} more lines"
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"<details><summary>{title}</summary>", "", f"{fence}{language}", shown, fence, "", "</details>")


def as_text(content: str) -> str:
    """A text as Markdown that shows exactly this text, on one line."""
    joined = _LINKING.sub(lambda found: found[0] + _WORD_JOINER, " ".join(printable(content).split()))
    return "".join(character if _is_plain(character) else f"&#{ord(character)};" for character in joined)


def as_code(content: str) -> str:
    """The same as code."""
    shown = " ".join(printable(content).split())
    return f"<code>{''.join(c if _is_plain(c) else f'&#{ord(c)};' for c in shown)}</code>"


def _is_plain(character: str) -> bool:
    return character.isalnum() or character in " ,;-"
