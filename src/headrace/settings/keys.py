"""Every key that a settings file may hold, as data: what it is, its type, and what Headrace does with it.

Source: lakeflow.md 2.1, 2.2 and 2.4 (the vendor's pipeline JSON and SDP's file), and our own keys. The checker, the
loader and docs/reference/settings.md all read this one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType


class ValueType(Enum):
    """What a value must look like; the value of the member is the phrase used in messages."""

    TEXT = "a text"
    BOOLEAN = "true or false"
    NUMBER = "a whole number"
    TEXTS = "a list of texts"
    MAP = "a mapping of texts"
    SECTION = "a mapping"
    SECTIONS = "a list of mappings"
    NAMED_SECTIONS = "a mapping of mappings"
    # Not looked into: the whole value is accepted without effect, or refused.
    ANY_MAP = "a mapping of anything"
    ANY_LIST = "a list of anything"


class Treatment(Enum):
    """What Headrace does with a key."""

    USED = "used"
    ACCEPTED = "accepted without effect"
    REFUSED = "refused"


@dataclass(frozen=True)
class Key:
    """One key. In ``path``, ``[]`` stands for each item of a list and ``*`` for any name.

    ``reason`` says why a key has no effect or is refused, ``instead`` what to do. A refused key may stand with a
    value that asks for nothing: null, false, or empty.
    """

    path: str
    type: ValueType
    treatment: Treatment
    about: str
    default: str = ""
    reason: str = ""
    instead: str = ""
    in_profile: bool = False

    @property
    def parent(self) -> str:
        """Path of the mapping that the key stands in; empty at the top."""
        return self.path.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        """The key as it is written."""
        return self.path.rpartition(".")[2]


_T = ValueType


def _used(path: str, kind: ValueType, about: str, default: str = "", *, in_profile: bool = False) -> Key:
    return Key(path, kind, Treatment.USED, about, default=default, in_profile=in_profile)


def _accepted(path: str, kind: ValueType, about: str, reason: str) -> Key:
    return Key(path, kind, Treatment.ACCEPTED, about, reason=reason)


def _refused(
    path: str, kind: ValueType, about: str, reason: str, instead: str, default: str = "", *, in_profile: bool = False
) -> Key:
    return Key(path, kind, Treatment.REFUSED, about, default, reason, instead, in_profile)


_PIPELINE = (
    _used("name", _T.TEXT, "Name of the pipeline. Required."),
    _used("id", _T.TEXT, "Identity of the pipeline, the same for all of its updates.", "derived from `name`"),
    _used("catalog", _T.TEXT, "Catalog that names without one belong to.", "none", in_profile=True),
    _used("schema", _T.TEXT, "Schema that names without one belong to.", "`default`", in_profile=True),
    _used("target", _T.TEXT, "The older word for `schema`.", in_profile=True),
    _used("database", _T.TEXT, "SDP's word for `schema`.", in_profile=True),
    _used(
        "storage",
        _T.TEXT,
        "Where tables, checkpoints and the event log are: a path, relative to the settings file, or a `file:` URI.",
        "`storage`",
        in_profile=True,
    ),
    _used("development", _T.BOOLEAN, "A flow that fails is not tried again.", "`false`", in_profile=True),
    _used(
        "configuration",
        _T.MAP,
        "Parameters and Spark confs, read with `spark.conf.get` and `${key}`. Every value is a text. "
        "`pipelines.maxFlowRetryAttempts` sets `max_flow_retries`, `pipelines.trigger.interval` how often flows of a "
        "continuous update look for new input where they do not say so themselves, "
        "`pipelines.cdc.tombstoneGCThresholdInSeconds` for how long tables that change events are merged into remember "
        "what their rows cannot tell (172800 seconds unless it is said), and "
        "`pipelines.applyChanges.tombstoneGCFrequencyInSeconds` how often they forget (3600). `headrace.cdc.on_tie` is "
        "`resolve`, `fail` or `quarantine`, for tables that do not say so themselves. For flows that do not say so "
        "themselves, `headrace.failing_rows` and `headrace.failing_batches` are `fail` or `quarantine`, and "
        "`headrace.failing_rows.share` is the share of their rows that may be set aside (0.01), and "
        "`headrace.static_inputs` says which rows of tables and files streams are joined with: `newest`, `start`, or "
        "how often folders of files are listed anew.",
        "empty",
        in_profile=True,
    ),
    _used("root_path", _T.TEXT, "Folder whose modules the pipeline's files can import.", "folder of the settings file"),
    _used(
        "libraries", _T.SECTIONS, "The pipeline's files; each item holds one of the keys below.", "`transformations/**`"
    ),
    _used("libraries[].glob", _T.SECTION, "Files by pattern."),
    _used("libraries[].glob.include", _T.TEXT, "A file, or `folder/**` for all .py, .sql and .ipynb files below it."),
    _used("libraries[].file", _T.SECTION, "One file."),
    _used("libraries[].file.path", _T.TEXT, "A .py, .sql or .ipynb file, relative to the settings file."),
    _used("libraries[].notebook", _T.SECTION, "One notebook."),
    _used(
        "libraries[].notebook.path",
        _T.TEXT,
        "A notebook, relative to the settings file; the ending (.ipynb, .py or .sql) may be left out.",
    ),
    _refused(
        "libraries[].maven",
        _T.ANY_MAP,
        "A Java package.",
        "jars come from the lock file of the connectors only",
        "Name a connector in connectors, or set spark.jars in spark_conf.",
    ),
    _refused(
        "libraries[].jar",
        _T.TEXT,
        "A jar.",
        "jars come from the lock file of the connectors only",
        "Set spark.jars in spark_conf; it is added to the jars that are needed anyway.",
    ),
    _refused(
        "libraries[].whl",
        _T.TEXT,
        "A Python wheel.",
        "packages are those of the Python environment that runs the update",
        "Install the wheel into that environment.",
    ),
)

_OURS = (
    _used("connectors", _T.TEXTS, "Connectors whose jars the session loads.", "none", in_profile=True),
    _used(
        "master",
        _T.TEXT,
        "Spark master of a session that Headrace starts. The variable `HEADRACE_MASTER` says it where the settings do "
        "not. A `--master` of spark-submit has to be the same.",
        "`local[*]`",
        in_profile=True,
    ),
    _used("spark_conf", _T.MAP, "Confs of a session that Headrace starts.", "empty", in_profile=True),
    _used("max_parallel_flows", _T.NUMBER, "How many flows run at the same time.", "`4`", in_profile=True),
    _used(
        "max_flow_retries",
        _T.NUMBER,
        "How often a flow that failed is tried again in one update. What would fail in the same way again, such as an "
        "error of a Python function or of the query, is not tried again.",
        "`2`; `0` in development",
        in_profile=True,
    ),
    _used(
        "stop_grace_seconds",
        _T.NUMBER,
        "How long a batch that runs may still take when an update is told to stop.",
        "`10`",
        in_profile=True,
    ),
    _used(
        "paths",
        _T.MAP,
        "Beginning of a path that Auto Loader is given to what it stands for here, such as `dbfs:/` to `/data/dbfs`; "
        "the longest one counts. Without a scheme, what it stands for is relative to the settings file.",
        "empty",
        in_profile=True,
    ),
    _used(
        "renames",
        _T.SECTION,
        "New names, each taking over all that lies under an old one. An entry that is done has no effect any more.",
    ),
    _used(
        "renames.datasets",
        _T.MAP,
        "Old name of a dataset to its new one: table, quarantine, checkpoints, epochs and counters go along, and a "
        "flow without a name of its own goes with its dataset.",
        "empty",
    ),
    _used("renames.flows", _T.MAP, "Old name of a flow to its new one; the flow goes on where it was.", "empty"),
    _used("secrets", _T.SECTION, "Where secrets are, beside the environment.", in_profile=True),
    _used(
        "secrets.directory",
        _T.TEXT,
        "Folder with one file for each secret, `<scope>/<key>`; `HEADRACE_SECRETS_DIR` goes before it.",
        "none",
    ),
    _used("profile", _T.TEXT, "Profile to use when neither `--profile` nor `HEADRACE_PROFILE` names one.", "none"),
    _used("profiles", _T.NAMED_SECTIONS, "Named sets of values that replace those of the file; mappings are merged."),
    _used("profiles.*.schema_prefix", _T.TEXT, "Text put before the name of the schema, such as `dev_`.", "empty"),
)

_NO_SERVER = "updates run where the command line runs, so no cloud account is involved"
_TRIGGERED = "an update is started by the command line"
_RESTARTS = "a continuous update is restarted by whoever started it"

_SERVICE = (
    _used(
        "continuous",
        _T.BOOLEAN,
        "An update goes on until it is stopped, as with `headrace run --continuous`.",
        "`false`",
        in_profile=True,
    ),
    _used(
        "parameters",
        _T.MAP,
        "Values of `:name` in SQL files, where they stand as texts; in `IDENTIFIER(:name)` as a name.",
        "empty",
        in_profile=True,
    ),
    _refused(
        "notifications",
        _T.ANY_LIST,
        "Mail about updates.",
        "no mail is sent yet",
        "Send it from an event hook, @dp.on_event_hook, or act on the exit code of headrace run.",
    ),
    _used("event_log", _T.SECTION, "Another name of the event log, and how long it keeps events.", "none"),
    _used(
        "event_log.name",
        _T.TEXT,
        "What `headrace sql` calls the event log, besides `event_log`. Required unless `retain` alone is given.",
    ),
    _used("event_log.schema", _T.TEXT, "Its schema.", "the pipeline's"),
    _used("event_log.catalog", _T.TEXT, "Its catalog.", "the pipeline's"),
    _used(
        "event_log.retain",
        _T.TEXT,
        "How long events are kept, such as `90 days`. Older ones are removed when the log is compacted: at the end of "
        "an update, and now and then in one that goes on. Events of the running update and the newest batch of each "
        "flow stay.",
        "for ever",
    ),
    _used("environment", _T.SECTION, "Python environment of the update."),
    _used(
        "environment.dependencies",
        _T.TEXTS,
        "Python packages, as `pip install` takes them. They are compared with what is installed, and never installed.",
        "none",
    ),
    _accepted(
        "environment.environment_version", _T.TEXT, "Version of the vendor's image.", "the environment is your own"
    ),
    _refused(
        "filters",
        _T.ANY_MAP,
        "Which packages are deployed.",
        "nothing is deployed, so nothing is filtered",
        "Name the files in libraries.",
    ),
    _refused(
        "restart_window",
        _T.ANY_MAP,
        "When a continuous update may restart.",
        _RESTARTS,
        "Leave it out, and let your service manager restart it.",
    ),
    _refused(
        "gateway_definition",
        _T.ANY_MAP,
        "A managed gateway.",
        "managed ingestion is the vendor's service",
        "Write a flow that reads the source.",
    ),
    _refused(
        "ingestion_definition",
        _T.ANY_MAP,
        "A managed ingestion.",
        "managed ingestion is the vendor's service",
        "Write a flow that reads the source.",
    ),
    _refused(
        "rewind_generation_interval",
        _T.ANY_MAP,
        "How often rewind points are made.",
        "rewind points are not there yet",
        "Leave it out.",
    ),
    _refused(
        "dry_run",
        _T.BOOLEAN,
        "Check and do not create.",
        "settings do not decide what a command does",
        "Use headrace validate.",
        "`false`",
    ),
    _accepted("trigger", _T.SECTION, "The older form of `continuous`.", _TRIGGERED),
    _accepted("trigger.manual", _T.ANY_MAP, "Start by hand.", _TRIGGERED),
    _refused(
        "trigger.cron",
        _T.ANY_MAP,
        "Start at set times.",
        "there is no scheduler",
        "Start headrace run from cron or from your scheduler.",
    ),
    _accepted("allow_duplicate_names", _T.BOOLEAN, "Allow a second pipeline of the same name.", _NO_SERVER),
    _accepted("serverless", _T.BOOLEAN, "Use the vendor's own compute.", _NO_SERVER),
    _accepted("photon", _T.BOOLEAN, "Use the vendor's native engine.", "queries run on open-source Spark"),
    _accepted(
        "channel", _T.TEXT, "Which version of the vendor's runtime.", "the installed version is the one that runs"
    ),
    _accepted("edition", _T.TEXT, "Which features are paid for.", "every feature is there in every edition"),
    _accepted("tags", _T.MAP, "Labels of the pipeline.", _NO_SERVER),
    _accepted("budget_policy_id", _T.TEXT, "Who pays.", _NO_SERVER),
    _accepted("usage_policy_id", _T.TEXT, "Who pays.", _NO_SERVER),
    _accepted("serverless_compute_id", _T.TEXT, "Which serverless compute.", _NO_SERVER),
    _accepted("run_as", _T.SECTION, "Whose rights an update has.", "an update has the rights of whoever starts it"),
    _accepted("run_as.user_name", _T.TEXT, "A person.", "an update has the rights of whoever starts it"),
    _accepted("run_as.service_principal_name", _T.TEXT, "A service.", "an update has the rights of whoever starts it"),
    _accepted("deployment", _T.ANY_MAP, "How the vendor's tools deployed the pipeline.", _NO_SERVER),
)

_MACHINES = "machines are chosen by the Spark master"

_CLUSTERS = (
    _used("clusters", _T.SECTIONS, "Compute, as the vendor describes it."),
    _used(
        "clusters[].label",
        _T.TEXT,
        "`default`, or `updates`, which goes before it. `maintenance` has no effect.",
        "`default`",
    ),
    _used("clusters[].spark_conf", _T.MAP, "Confs of a session that Headrace starts; `spark_conf` goes before them."),
    _used("clusters[].autoscale", _T.SECTION, "Becomes Spark's dynamic allocation in a session that Headrace starts."),
    _used("clusters[].autoscale.min_workers", _T.NUMBER, "`spark.dynamicAllocation.minExecutors`."),
    _used("clusters[].autoscale.max_workers", _T.NUMBER, "`spark.dynamicAllocation.maxExecutors`."),
    _accepted("clusters[].autoscale.mode", _T.TEXT, "How to scale.", "Spark has one way of scaling"),
    _accepted(
        "clusters[].num_workers", _T.NUMBER, "Number of machines.", "set spark.executor.instances in spark_conf instead"
    ),
    _refused(
        "clusters[].spark_env_vars",
        _T.ANY_MAP,
        "Environment variables.",
        "variables of a process are set before it starts",
        "Set them where headrace is started, and for executors as spark.executorEnv.NAME in spark_conf.",
    ),
    _refused(
        "clusters[].init_scripts",
        _T.ANY_LIST,
        "Scripts that prepare a machine.",
        "machines are not started by an update",
        "Run the scripts when the machines are set up.",
    ),
    _refused(
        "clusters[].enable_local_disk_encryption",
        _T.BOOLEAN,
        "Encrypt local disks.",
        "disks belong to the machines and are not encrypted by an update",
        "Encrypt the disks, and set spark.io.encryption.enabled in spark_conf.",
        "`false`",
    ),
    _accepted("clusters[].node_type_id", _T.TEXT, "Type of the workers' machines.", _MACHINES),
    _accepted("clusters[].driver_node_type_id", _T.TEXT, "Type of the driver's machine.", _MACHINES),
    _accepted("clusters[].instance_pool_id", _T.TEXT, "Pool of the workers' machines.", _MACHINES),
    _accepted("clusters[].driver_instance_pool_id", _T.TEXT, "Pool of the driver's machine.", _MACHINES),
    _accepted("clusters[].policy_id", _T.TEXT, "Limits set by an administrator.", _MACHINES),
    _accepted("clusters[].apply_policy_default_values", _T.BOOLEAN, "Use the values of the policy.", _MACHINES),
    _accepted("clusters[].custom_tags", _T.MAP, "Labels of the machines.", _MACHINES),
    _accepted("clusters[].cluster_log_conf", _T.ANY_MAP, "Where logs go.", "logs are in <storage>/system/logs"),
    _accepted("clusters[].ssh_public_keys", _T.TEXTS, "Who may log in.", _MACHINES),
    _accepted("clusters[].aws_attributes", _T.ANY_MAP, "Details of Amazon's machines.", _MACHINES),
    _accepted("clusters[].azure_attributes", _T.ANY_MAP, "Details of Microsoft's machines.", _MACHINES),
    _accepted("clusters[].gcp_attributes", _T.ANY_MAP, "Details of Google's machines.", _MACHINES),
)

# lakeflow.md 2.1: "cannot be set by users".
_VENDOR_ONLY = {
    "cluster_name": _T.TEXT,
    "data_security_mode": _T.TEXT,
    "access_mode": _T.TEXT,
    "spark_version": _T.TEXT,
    "autotermination_minutes": _T.NUMBER,
    "runtime_engine": _T.TEXT,
    "effective_spark_version": _T.TEXT,
    "cluster_source": _T.TEXT,
    "docker_image": _T.ANY_MAP,
    "workload_type": _T.ANY_MAP,
}

KEYS: tuple[Key, ...] = (
    *_PIPELINE,
    *_OURS,
    *_SERVICE,
    *_CLUSTERS,
    *(
        _refused(
            f"clusters[].{name}",
            kind,
            "Set by the vendor.",
            "the vendor does not let users set it either",
            "Remove it.",
        )
        for name, kind in _VENDOR_ONLY.items()
    ),
)


@cache
def keys_below(path: str) -> Mapping[str, Key]:
    """The keys that may stand in the mapping at *path* (empty: the top), by how they are written."""
    found = {key.leaf: key for key in KEYS if key.parent == path}
    if path == "profiles.*":
        found.update({key.leaf: key for key in KEYS if key.in_profile})
    return MappingProxyType(found)


def parents_of(leaf: str) -> Iterator[str]:
    """Paths of the mappings in which a key of this name may stand; the top is left out."""
    return (key.parent for key in KEYS if key.leaf == leaf and key.parent)
