"""Answers forms: one that is sent is a request of the API, and leads to a page that says what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.errors import PipelineError, Problems
from headrace.project.requests.request import Request as StoredRequest
from headrace.serve.access import own_path
from headrace.serve.api.bodies import checked_body, checked_key
from headrace.serve.api.failures import status_of
from headrace.serve.api.routes import ROUTES, ApiRoute
from headrace.serve.api.submitting import Submission, check_role
from headrace.serve.api.writing import Asked
from headrace.serve.forms.confirmations import check_confirmation
from headrace.serve.forms.form_fields import BACK, CONFIRM, KEY, TOKEN, SentForm, sent_form
from headrace.serve.forms.form_tokens import FormTokens
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Frame, Page, Renderer, path_part
from headrace.serve.roles import principal_of

FORM_PATH = "/p/{slug}/forms/{operation}"
SHOWN_REQUEST = "request"
_WRITES = {route.name: route for route in ROUTES if route.writes}
_SITE, _OWN_SITE = "sec-fetch-site", "same-origin"


class FormEndpoint:
    """Takes the forms of pages.

    Args:
        pipelines: by their names in URLs.
        renderer: makes the page of a refusal.
        submission: stores requests.
        tokens: of forms.
        is_read_only: every form is refused.
    """

    def __init__(
        self,
        pipelines: Mapping[str, ServedPipeline],
        renderer: Renderer,
        submission: Submission,
        tokens: FormTokens,
        *,
        is_read_only: bool,
    ) -> None:
        self._pipelines = pipelines
        self._renderer = renderer
        self._submission = submission
        self._tokens = tokens
        self._is_read_only = is_read_only

    async def send(self, request: Request) -> Response:
        """Store the request of a form, and lead to the page that shows it; a refusal is a page that says why.

        Raises:
            PipelineError: SERVE.NO_PAGE.
        """
        pipeline, route = self._pipeline(request), operation_of(request.path_params["operation"])
        form = SentForm({})
        try:
            self._check_sender(request)
            form = sent_form(", ".join(request.headers.getlist("content-type")), await request.body())
            made = await self._stored(request, pipeline, route, form)
        except (PipelineError, Problems) as error:
            return self._refusal(pipeline, route, form, error)
        return RedirectResponse(goes_to(pipeline, form, made), 303)

    def _check_sender(self, request: Request) -> None:
        """Refuse a form that a page of another site, or a program, has sent."""
        if self._is_read_only:
            raise PipelineError("SERVE.READ_ONLY")
        sites = request.headers.getlist(_SITE)
        # Without this header, the guard has seen our own origin.
        if not principal_of(request.scope).is_browser or (sites and sites != [_OWN_SITE]):
            raise PipelineError("API.CROSS_SITE")

    async def _stored(
        self, request: Request, pipeline: ServedPipeline, route: ApiRoute, form: SentForm
    ) -> StoredRequest:
        principal = principal_of(request.scope)
        if not self._tokens.is_of(form.one(TOKEN), principal):
            raise PipelineError("SERVE.FORM_TOKEN")
        check_role(principal, route)
        key = checked_key([form.one(KEY)]) or ""
        body = checked_body(route, form.document(route), form.path(route))
        asked = Asked(pipeline, body, principal, key)
        address = request.client.host if request.client else ""

        def stored() -> StoredRequest:
            check_confirmation(pipeline, route, body, form.one(CONFIRM))
            return self._submission.submit(route, asked, address)

        return await run_in_threadpool(stored)

    def _refusal(
        self, pipeline: ServedPipeline, route: ApiRoute, form: SentForm, error: PipelineError | Problems
    ) -> Response:
        problems = error.errors if isinstance(error, Problems) else (error,)
        document = {
            "what": route.summary,
            "problems": [one.to_json() for one in problems],
            "back": back_of(pipeline, form),
        }
        page = Page("not_done.html", "Not done", document, status=status_of(problems[0]))
        return self._renderer.html(page, Frame(pipeline.slug, pipeline.redact(pipeline.name), redact=pipeline.redact))

    def _pipeline(self, request: Request) -> ServedPipeline:
        slug = request.path_params["slug"]
        if slug not in self._pipelines:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        return self._pipelines[slug]


def operation_of(name: str) -> ApiRoute:
    """The route of the API that a form is for.

    Raises:
        PipelineError: SERVE.NO_PAGE.
    """
    if name not in _WRITES:
        raise PipelineError("SERVE.NO_PAGE", what=f'form "{name}"', suggestion="")
    return _WRITES[name]


def back_of(pipeline: ServedPipeline, form: SentForm) -> str:
    """The page of the pipeline to which a form leads back; its first page if the form names none."""
    home, back = f"/p/{pipeline.slug}", own_path(form.values.get(BACK, ("",))[0])
    path = urlsplit(back).path
    is_of_pipeline = path == home or (path.startswith(f"{home}/") and not {".", ".."}.intersection(path.split("/")))
    return back if is_of_pipeline else home


def goes_to(pipeline: ServedPipeline, form: SentForm, made: StoredRequest) -> str:
    """The page to which a form leads: the one that it was on, with a message, or the one of its request."""
    if not form.one(BACK):
        return f"/p/{pipeline.slug}/requests/{path_part(made.id)}"
    back = urlsplit(back_of(pipeline, form))
    query = [(name, value) for name, value in parse_qsl(back.query) if name != SHOWN_REQUEST]
    return f"{back.path}?{urlencode([*query, (SHOWN_REQUEST, made.id)])}"
