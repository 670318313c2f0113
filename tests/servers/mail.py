"""A small mail server: keeps what it was given, with TLS and a login if a test wants them."""

from __future__ import annotations

import base64
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_string
from email.policy import default
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread


@dataclass
class MailBox:
    """What came: mail, its recipients, logins, and whether the connection was encrypted.

    ``replies`` are answers by the first word of a command, instead of success.
    """

    port: int = 0
    tls: ssl.SSLContext | None = None
    replies: dict[str, str] = field(default_factory=dict)
    received: list[tuple[list[str], object]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)


class _Handler(StreamRequestHandler):
    box: MailBox

    def handle(self):
        self.is_encrypted, self.recipients = False, []
        self.say("220 ready")
        while line := self.rfile.readline().decode().strip():
            word, _, rest = line.partition(" ")
            if word.upper() == "STARTTLS":
                self.say("220 go")
                self.request = self.box.tls.wrap_socket(self.request, server_side=True)
                self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
                self.is_encrypted = True
                continue
            if not self.answer(word.upper(), rest):
                return

    def answer(self, word, rest):
        if word in self.box.replies:
            self.say(self.box.replies[word])
        elif word == "EHLO":
            offers = ["250-here"] + (["250-STARTTLS"] if self.box.tls and not self.is_encrypted else [])
            self.say("\r\n".join([*offers, "250 AUTH PLAIN"]))
        elif word == "AUTH":
            self.box.logins.append(base64.b64decode(rest.split()[-1]).decode())
            self.say("235 welcome")
        elif word == "DATA":
            self.say("354 go")
            self.keep()
            self.say("250 kept")
        elif word == "QUIT":
            self.say("221 bye")
            return False
        else:
            self.recipients += [rest.partition("<")[2].partition(">")[0]] if word == "RCPT" else []
            self.say("250 ok")
        return True

    def keep(self):
        lines = []
        while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(line.removeprefix(".") if line.startswith("..") else line)
        self.box.received.append((self.recipients, message_from_string("\n".join(lines), policy=default)))
        self.box.encrypted.append(self.is_encrypted)

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def running_mail_server(tls=None):
    """The server, for as long as the block takes."""
    box = MailBox(tls=tls)
    handler = type("Handler", (_Handler,), {"box": box})
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
