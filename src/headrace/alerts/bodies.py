"""Messages in the formats of their receivers. Pure.

Sources: Alertmanager's API v2 (postableAlert); Slack's incoming webhooks; Adaptive Cards 1.4, which Teams' workflows
take. Names and texts of a pipeline are not markup there: Slack's is escaped, and the card has plain text runs.
"""

from __future__ import annotations

import json
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from headrace.alerts.messages import AlertEntry, Message, MessageKind
from headrace.settings.alert_settings import BodyFormat

_VERSION = 1


def webhook_body(message: Message, body: BodyFormat, repeat_s: float) -> bytes:
    """The body of a request.

    Args:
        message: what to say.
        body: its format.
        repeat_s: after what time a message about an open alert is repeated. Alertmanager keeps an alert open for twice
            as long.
    """
    match body:
        case BodyFormat.JSON:
            found: Any = _json(message)
        case BodyFormat.SLACK:
            found = {"text": _escaped(message.full_text)}
        case BodyFormat.TEAMS:
            found = _card(message)
        case BodyFormat.ALERTMANAGER:
            firing_until = message.created_at + 2 * repeat_s
            found = [entry.to_alertmanager(firing_until) for entry in _entries(message)]
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")


def mail(message: Message, sender: str, recipients: tuple[str, ...], message_id: str) -> EmailMessage:
    """The message as mail."""
    found = EmailMessage(policy=SMTP)
    found["Subject"] = message.title
    found["From"] = sender
    found["To"] = ", ".join(recipients)
    found["Message-ID"] = message_id
    found["Auto-Submitted"] = "auto-generated"
    found.set_content(message.full_text.encode("utf-8", "replace").decode() + "\n")
    return found


def _json(message: Message) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "kind": message.kind.value,
        "status": "resolved" if message.kind is MessageKind.RESOLVED else "firing",
        "pipeline": message.pipeline,
        "title": message.title,
        "text": message.full_text,
        "alerts": [entry.to_alertmanager() for entry in message.alerts],
    }


def _entries(message: Message) -> tuple[AlertEntry, ...]:
    """The alerts of a message; for one without alerts, one that is over at once."""
    if message.alerts:
        return message.alerts
    labels = {"alertname": f"headrace_{message.kind.value}", "severity": "info", "pipeline": message.pipeline}
    texts = {"summary": message.title, "description": message.text}
    return (AlertEntry(labels, texts, message.created_at, message.created_at + 1, ""),)


def _card(message: Message) -> dict[str, Any]:
    lines = message.full_text.splitlines()
    runs = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]} for line in lines if line]
    card = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "body": runs,
    }
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
