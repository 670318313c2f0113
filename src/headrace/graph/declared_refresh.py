"""What the declaration of a materialized view says about its refresh, whatever its query."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.cdc.delta_change_feed import FEED_PROPERTY
from headrace.model.datasets import Dataset
from headrace.model.expectations import Action
from headrace.model.properties import switched_on
from headrace.model.refresh import Obstacle, RefreshPolicy

_TRACKING_PROPERTY = "delta.enableRowTracking"


def declared_obstacle(dataset: Dataset) -> Obstacle | None:
    """What prevents a view from being refreshed in part; None if only its query decides."""
    if dataset.refresh_policy is RefreshPolicy.FULL:
        return Obstacle("refresh policy", "the declaration asks for a full refresh")
    for rule in dataset.expectations:
        name, rewrite = f'expectation "{rule.name}"', "Put it on a table that the view reads"
        if not isinstance(rule.predicate, str):
            return Obstacle(name, "it is no condition in SQL on single rows", rewrite)
        if rule.action not in (Action.WARN, Action.FAIL):
            return Obstacle(name, "the rows that violate it are not in the view", rewrite)
    if dataset.metrics:
        reason = "it is computed from all rows of the view"
        return Obstacle(f'metric "{dataset.metrics[0].name}"', reason, "Compute it where the view is read")
    return properties_obstacle(dataset.properties)


def properties_obstacle(properties: Mapping[str, str]) -> Obstacle | None:
    """The same for the properties of a view's table."""
    if switched_on(properties, FEED_PROPERTY):
        reason = "a change feed has to tell changed rows from others"
        return Obstacle(f'property "{FEED_PROPERTY}"', reason, "Read the view without its change feed")
    if switched_on(properties, _TRACKING_PROPERTY):
        reason = "rows have to keep their ids"
        return Obstacle(f'property "{_TRACKING_PROPERTY}"', reason, "Remove the property")
    return None
