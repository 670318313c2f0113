"""The fields of a form that was sent: those of its request, and those that every form has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from headrace.errors import PipelineError
from headrace.serve.api.routes import ApiRoute, FieldKind

FORM_TYPE = "application/x-www-form-urlencoded"
TOKEN, KEY, BACK, CONFIRM = "form_token", "key", "back", "confirm"
_OWN = frozenset({TOKEN, KEY, BACK, CONFIRM})
_MOST_FIELDS = 1000


@dataclass(frozen=True)
class SentForm:
    """A form that was sent.

    Attributes:
        values: by the name of a field, what was entered; some have several values.
    """

    values: Mapping[str, Sequence[str]]

    def one(self, name: str) -> str:
        """The only value of a field; empty if it is left out.

        Raises:
            PipelineError: SERVE.FORM if it has several.
        """
        found = self.values.get(name, ())
        if len(found) > 1:
            raise PipelineError("SERVE.FORM", reason=f'field "{name[:50]}" is there {len(found)} times')
        return found[0] if found else ""

    def path(self, route: ApiRoute) -> dict[str, str]:
        """The names in the path of a route, without the pipeline's."""
        return {name: self.one(name) for name in route.path_parameters if name != "pipeline"}

    def document(self, route: ApiRoute) -> dict[str, Any]:
        """The object that a program would send for the same. Fields that nobody filled in are left out.

        Raises:
            PipelineError: SERVE.FORM.
        """
        kinds = {field.name: field.kind for field in route.fields}
        others = _OWN.union(route.path_parameters)
        found = {}
        for name, values in self.values.items():
            if name in others:
                continue
            filled = [value.strip() for value in values if value.strip()]
            if filled:
                # Names that the route does not know are refused with its other problems.
                found[name] = self._value(name, kinds.get(name, FieldKind.TEXT), filled)
        return found

    def _value(self, name: str, kind: FieldKind, filled: list[str]) -> Any:
        match kind:
            case FieldKind.NAMES:
                return filled
            case FieldKind.FLAG:
                # As a box that is ticked sends it.
                return True if self.one(name).strip() == "true" else filled[0]
            case FieldKind.HOURS:
                try:
                    return float(self.one(name))
                except ValueError:
                    return filled[0]
            case FieldKind.TEXT:
                return self.one(name).strip()


def sent_form(content_type: str, content: bytes) -> SentForm:
    """Parse a form.

    Raises:
        PipelineError: SERVE.FORM.
    """
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise PipelineError("SERVE.FORM", reason=f"it is not {FORM_TYPE}")
    try:
        pairs = parse_qsl(content.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise PipelineError("SERVE.FORM", reason="it is damaged, or has too many fields") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return SentForm(values)
