"""How a request of a program or of a page gets into the queue: role, fields, id, and the words of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from headrace.errors import PipelineError
from headrace.project.requests.request import Asker
from headrace.project.requests.request import Request as StoredRequest
from headrace.project.requests.request_queue import RequestQueue
from headrace.serve.api.routes import ApiRoute
from headrace.serve.api.writing import WRITERS, Asked
from headrace.serve.roles import Principal


def check_role(principal: Principal, route: ApiRoute) -> None:
    """Refuse who may not use a route.

    Raises:
        PipelineError: API.FORBIDDEN.
    """
    if not principal.role.includes(route.role):
        raise PipelineError("API.FORBIDDEN", role=principal.role.value, needed=route.role.value, what=route.summary)


class Submission:
    """Takes requests for some pipelines.

    Args:
        queues: by the pipeline's name in URLs.
    """

    def __init__(self, queues: Mapping[str, RequestQueue]) -> None:
        self._queues = queues

    def submit(self, route: ApiRoute, asked: Asked, address: str) -> StoredRequest:
        """Store a request; the one that is there if it was stored before. Reads and writes storages.

        Args:
            route: what is asked for.
            asked: who asks for it, with its fields, which are checked.
            address: of the client.

        Raises:
            PipelineError: SERVE.NO_QUEUE, SERVE.ID_USED, SERVE.QUEUE_FULL, SERVE.STORAGE, or what is asked for cannot
                be done.
        """
        queue = self._queues.get(asked.pipeline.slug)
        if queue is None:
            raise PipelineError("SERVE.NO_QUEUE", reason="It has no queue")
        sent = [route.name, asked.user, asked.body.path, asked.body.values]
        fingerprint = sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
        # What was asked for may not be possible any more, but it was asked for.
        try:
            known = queue.known(asked.request_id, fingerprint)
            if known is not None:
                return known
            return queue.submit(asked.request_id, fingerprint, WRITERS[route.name](asked), Asker(asked.user, address))
        except OSError as error:
            raise no_storage(error) from error


def no_storage(error: OSError) -> PipelineError:
    """The error for a storage that cannot be read or written."""
    return PipelineError("SERVE.STORAGE", reason=error.strerror or type(error).__name__)
