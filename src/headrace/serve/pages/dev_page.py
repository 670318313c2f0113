"""The page of a project that is being developed: problems, and what the last save changes."""

from __future__ import annotations

from starlette.requests import Request

from headrace.errors import PipelineError
from headrace.serve.formats import iso
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page


def dev_page(pipeline: ServedPipeline, _request: Request, _name: str) -> Page:
    """The page.

    Raises:
        PipelineError: SERVE.NO_PAGE if the project is not being developed by this process.
    """
    if pipeline.board is None:
        raise PipelineError("SERVE.NO_PAGE", what="the page of headrace dev", suggestion="")
    found = pipeline.board.state.to_json()
    # Those of the files, before an update has recorded them; before the first plan, those of the last update.
    datasets = found["datasets"] or list(pipeline.view().logged.datasets)
    document = {"name": pipeline.name, **found, "checked_at": iso(found["checked_at"]), "datasets": datasets}
    return Page("dev.html", f"Dev: {pipeline.name}", document)
