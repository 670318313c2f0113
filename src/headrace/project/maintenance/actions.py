"""Does the actions of maintenance on tables, with a session where Delta's own code is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from deltalake import PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import InternalError
from headrace.model.maintenance import MaintenancePolicy, Task
from headrace.plan.maintenance import Action, ActionState, Role, TableFacts, unneeded_files
from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.optimize import compact, write_log_checkpoint, z_order
from headrace.spark.delta.tables import delta_table
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.storage.maintained_tables import delta_rs_time, expiry_condition
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path

_CONFLICT = "another process has changed the table meanwhile; the next maintenance tries again"
# A checkpoint removes no commits then.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@dataclass(frozen=True)
class TableActions:
    """Does actions on tables.

    Attributes:
        session: opens the session; called once an action needs it.
        redact: removes secrets from a text.
    """

    session: Callable[[], SparkSession]
    redact: Callable[[str], str]

    def perform(self, action: Action, facts: TableFacts, policy: MaintenancePolicy, now_s: float) -> Action:
        """Do a planned action; returns it as done, skipped because of a conflict, or failed.

        Args:
            action: the action.
            facts: what it was planned from.
            policy: the settings.
            now_s: the time that it was planned at.
        """
        try:
            self._perform(action, facts, policy, now_s)
        except CommitFailedError:
            return action.skipped(_CONFLICT)
        except (PySparkException, Py4JJavaError) as error:
            causes = tuple(chain(error))
            if (causes[0].condition or "").startswith("DELTA_CONCURRENT"):
                return action.skipped(_CONFLICT)
            return self._failed(action, innermost(causes).message)
        except (DeltaError, OSError) as error:
            return self._failed(action, str(error))
        return replace(action, state=ActionState.DONE)

    def _failed(self, action: Action, reason: str) -> Action:
        first = next(iter(reason.strip().splitlines()), "")
        return replace(action, state=ActionState.FAILED, reason=self.redact(first), after=None)

    def _perform(self, action: Action, facts: TableFacts, policy: MaintenancePolicy, now_s: float) -> None:
        match action.task:
            case Task.RETENTION:
                self._delete_rows(facts, policy, now_s)
            case Task.COMPACT:
                compact(self.session(), facts.path)
            case Task.CLUSTER if facts.cluster_by:
                compact(self.session(), facts.path)
            case Task.CLUSTER:
                z_order(self.session(), facts.path, facts.z_order, action.partitions)
            case Task.VACUUM:
                _remove_files(facts, policy, now_s)
            case Task.CHECKPOINT if facts.features.names:
                write_log_checkpoint(self.session(), facts.path)
            case Task.CHECKPOINT:
                open_delta(facts.path).create_checkpoint()
            case Task.EPOCHS | Task.INACTIVE:
                raise InternalError(f"{action.task.value} is no task of a table")

    def _delete_rows(self, facts: TableFacts, policy: MaintenancePolicy, now_s: float) -> None:
        if facts.role is Role.DEAD_LETTERS:
            condition = expiry_condition(policy, now_s, delta_rs_time)
            open_delta(facts.path).delete(condition, post_commithook_properties=_NO_HOOKS)
            return
        condition = expiry_condition(policy, now_s, lambda text: f"TIMESTAMP '{text}Z'")
        # delta-rs would rewrite the other rows of these files, and may change their timestamps.
        table = delta_table(self.session(), facts.path)
        retry_commit(lambda: table.delete(condition))


def _remove_files(facts: TableFacts, policy: MaintenancePolicy, now_s: float) -> None:
    for found in unneeded_files(facts, policy, now_s):
        file = storage_path(facts.path) / found.path
        file.unlink(missing_ok=True)
        # Hadoop's checksum of the file.
        with suppress(OSError):
            file.with_name(f".{file.name}.crc").unlink()
