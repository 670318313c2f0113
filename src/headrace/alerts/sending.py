"""Sends a message over a channel: an HTTP request, mail, or Apprise."""

from __future__ import annotations

import hashlib
import hmac
import logging
import smtplib
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from typing import Any, assert_never

from headrace.alerts.bodies import mail, webhook_body
from headrace.alerts.messages import Message, MessageKind
from headrace.alerts.outbox import Answer, Verdict
from headrace.errors import PipelineError
from headrace.settings.alert_settings import AppriseUrl, Channel, MailServer, Webhook
from headrace.settings.secrets import Secrets
from headrace.sinks.http_client import (
    TRANSIENT_STATUS,
    open_client,
    proxy_variables,
    response_text,
    retry_after_s,
    secrets_of,
    transport_errors,
)

TIMEOUT_S = 10.0
_IMPLICIT_TLS_PORT = 465


def _apprise() -> Any:
    import apprise  # noqa: PLC0415 - an extra

    # It would log URLs, which contain tokens.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    return apprise


@dataclass(frozen=True)
class Sender:
    """Sends messages.

    Attributes:
        secrets: looks up what channels refer to.
        environ: the environment variables.
        repeat_s: after what time messages about open alerts are repeated.
        monotonic: a monotonic clock in seconds.
        timeout_s: how long a receiver may take for a step.
        tls: how mail servers prove who they are.
        load_apprise: the package Apprise.
    """

    secrets: Secrets
    environ: Mapping[str, str]
    repeat_s: float
    monotonic: Callable[[], float]
    timeout_s: float = TIMEOUT_S
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    load_apprise: Callable[[], Any] = field(default=_apprise)

    def send(self, channel: Channel, message: Message) -> Answer:
        """Send a message once. Every failure is an answer; its text has no secrets."""
        try:
            resolved = channel.resolved(self.secrets, self.environ)
            answer = self._send(resolved, message)
        except PipelineError as error:
            # Somebody can set the secret, or install the package.
            detail = f". {error.detail}" if error.detail else "."
            answer = Answer(Verdict.FAILED, f"{error.message}{detail} {error.hint}")
        except Exception as error:  # noqa: BLE001 - one message must not hold up those of other channels
            answer = Answer(Verdict.FAILED, f"could not send it: {type(error).__name__}")
        return replace(answer, text=self.secrets.redact(answer.text))

    def _send(self, channel: Channel, message: Message) -> Answer:
        match channel.target:
            case Webhook() as webhook:
                return self._post(channel.name, webhook, message)
            case MailServer() as server:
                return self._mail(server, message)
            case AppriseUrl(url=url):
                return self._notify(channel.name, url, message)
            case _ as never:
                assert_never(never)

    def _post(self, name: str, webhook: Webhook, message: Message) -> Answer:
        body = webhook_body(message, webhook.format, self.repeat_s)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "Idempotency-Key": message.key}
        if webhook.signing_secret:
            digest = hmac.new(webhook.signing_secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Headrace-Signature"] = f"sha256={digest}"
        try:
            with (
                open_client(self.timeout_s) as client,
                client.stream("POST", webhook.url, content=body, headers=headers) as response,
            ):
                text = ""
                # The status decides; a receiver that has accepted the message may still fail to say more.
                with suppress(Exception):
                    text = response_text(response, self.timeout_s, self.monotonic, secrets_of(webhook.url, {}))
        except ModuleNotFoundError:
            raise _package_missing(name, "httpx2", "headrace[http]") from None
        except (UnicodeError, ValueError):
            return Answer(Verdict.REFUSED, "the URL is invalid")
        except Exception as error:
            if not type(error).__module__.startswith("httpx2"):
                raise
            verdict = Verdict.FAILED if isinstance(error, transport_errors()) else Verdict.REFUSED
            proxies = proxy_variables()
            through = f" (with a proxy by {', '.join(proxies)})" if proxies else ""
            return Answer(verdict, f"no answer: {type(error).__name__}{through}")
        return _answer(response.status_code, text, retry_after_s(response.headers))

    def _mail(self, server: MailServer, message: Message) -> Answer:
        recipients = message.recipients or server.recipients
        if not recipients:
            return Answer(Verdict.REFUSED, "the channel has no recipients: add to")
        try:
            letter = mail(message, server.sender, recipients, f"<{message.message_id}@headrace.invalid>")
            refused = self._submit(server, letter, recipients)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            verdict = Verdict.REFUSED if all(code >= 500 for code in codes) else Verdict.FAILED
            return Answer(verdict, f"the server refuses all recipients: {_said(next(iter(error.recipients.values())))}")
        except smtplib.SMTPResponseException as error:
            code = int(error.smtp_code)
            verdict = Verdict.REFUSED if code >= 500 else Verdict.FAILED
            return Answer(verdict, f"the server refuses: {_said((code, error.smtp_error))}")
        except (smtplib.SMTPNotSupportedError, ssl.SSLCertVerificationError) as error:
            return Answer(Verdict.REFUSED, str(error))
        except (OSError, smtplib.SMTPException) as error:
            return Answer(Verdict.FAILED, f"no answer: {type(error).__name__}")
        except ValueError:
            return Answer(Verdict.REFUSED, "an address, the user, the password or the host has invalid characters")
        without = f", without {', '.join(refused)}" if refused else ""
        text = f"accepted for {len(recipients) - len(refused)} recipients{without}"
        return Answer(Verdict.ACCEPTED, text, is_partial=bool(refused))

    def _submit(self, server: MailServer, letter: EmailMessage, recipients: tuple[str, ...]) -> Collection[str]:
        """Send a mail; returns the recipients that the server refuses if it accepts others."""
        smtp = self._connected(server)
        try:
            if server.user:
                smtp.login(server.user, server.password)
            refused = smtp.send_message(letter, server.sender, recipients)
            # It was accepted, whatever the server says after it.
            with suppress(OSError):
                smtp.quit()
        finally:
            smtp.close()
        return refused

    def _connected(self, server: MailServer) -> smtplib.SMTP:
        """A connection, with TLS where the server has it. A password is never sent without."""
        name = socket.gethostname()
        if server.port == _IMPLICIT_TLS_PORT:
            return smtplib.SMTP_SSL(server.host, server.port, name, timeout=self.timeout_s, context=self.tls())
        smtp = smtplib.SMTP(server.host, server.port, name, timeout=self.timeout_s)
        try:
            self._encrypt(smtp, server)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _encrypt(self, smtp: smtplib.SMTP, server: MailServer) -> None:
        smtp.ehlo()
        if smtp.has_extn("starttls"):
            smtp.starttls(context=self.tls())
            smtp.ehlo()
        elif server.user:
            raise smtplib.SMTPNotSupportedError("the server has no TLS, and the password would be readable")

    def _notify(self, name: str, url: str, message: Message) -> Answer:
        try:
            apprise = self.load_apprise()
        except ModuleNotFoundError:
            raise _package_missing(name, "apprise", "headrace[apprise]") from None
        # Another host must not get the message, and a token.
        service = apprise.Apprise(asset=apprise.AppriseAsset(http_redirects=False))
        kinds = {MessageKind.RESOLVED: apprise.NotifyType.SUCCESS, MessageKind.TEST: apprise.NotifyType.INFO}
        kind = kinds.get(message.kind, apprise.NotifyType.WARNING)
        try:
            if not service.add(url):
                return Answer(Verdict.REFUSED, "Apprise does not know this URL")
            # Services that take Markdown or HTML get names as they are.
            text = apprise.NotifyFormat.TEXT
            accepted = service.notify(message.full_text, message.title, notify_type=kind, body_format=text)
        except Exception as error:  # noqa: BLE001 - a plugin of Apprise may raise anything
            return Answer(Verdict.FAILED, f"Apprise failed: {type(error).__name__}")
        return Answer(Verdict.ACCEPTED, "accepted") if accepted else Answer(Verdict.FAILED, "Apprise could not send it")


def _answer(status: int, text: str, wait_s: float) -> Answer:
    said = f', response: "{text}"' if text else ""
    if 200 <= status < 300:
        return Answer(Verdict.ACCEPTED, f"accepted, status {status}")
    if status in TRANSIENT_STATUS or status >= 500:
        return Answer(Verdict.FAILED, f"status {status}{said}", wait_s)
    if 300 <= status < 400:
        return Answer(Verdict.REFUSED, f"status {status}, and redirects are not followed")
    return Answer(Verdict.REFUSED, f"status {status}{said}")


def _said(reply: tuple[int, bytes | str]) -> str:
    code, text = reply
    line = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {line[:200]}"


def _package_missing(channel: str, package: str, install: str) -> PipelineError:
    return PipelineError("ALERTS.PACKAGE_MISSING", channel=channel, package=package, install=install)
