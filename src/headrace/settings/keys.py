"""Every key of a settings file, as data: its meaning, its type, and how Headrace treats it.

Source: lakeflow.md 2.1, 2.2 and 2.4 (the vendor's pipeline JSON and SDP's file), and our own keys. The checker, the
loader, docs/reference/settings.md and the JSON schema for editors all read this one table.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.change_classes import ApprovalMode, ChangeClass
from headrace.settings.alert_keys import ALERT_KEYS
from headrace.settings.catalog_keys import CATALOG_KEYS
from headrace.settings.key import Key, KeyTable, ValueType, accepted, refused, used
from headrace.settings.lineage_keys import LINEAGE_KEYS
from headrace.settings.schedule_keys import SCHEDULE_KEYS
from headrace.settings.store_keys import STORE_KEYS

_T, _used, _accepted, _refused = ValueType, used, accepted, refused
_NOT_BLANK = r"\S"
# As parse_interval_s reads it, which also knows the units.
_INTERVAL = r"^\s*([A-Za-z]+\s+)?[0-9]+([.][0-9]+)?\s*[A-Za-z]+\s*$"
_RETENTION = rf"^\s*[Ff][Oo][Rr][Ee][Vv][Ee][Rr]\s*$|{_INTERVAL}"
CLUSTER_LABELS = ("default", "updates", "maintenance")

_PIPELINE = (
    _used("name", _T.TEXT, "Name of the pipeline. Required.", required=True, pattern=_NOT_BLANK),
    _used("id", _T.TEXT, "ID of the pipeline, the same for all of its updates.", "derived from `name`"),
    _used("catalog", _T.TEXT, "Catalog of names that do not include one.", "none", in_profile=True),
    _used("schema", _T.TEXT, "Schema of names that do not include one.", "`default`", in_profile=True),
    _used("target", _T.TEXT, "Older name of `schema`.", in_profile=True),
    _used("database", _T.TEXT, "Name of `schema` in Spark Declarative Pipelines.", in_profile=True),
    _used(
        "storage",
        _T.TEXT,
        "Folder of the tables, the checkpoints and the event log. A path, relative to the settings file, or a `file:` "
        "URI.",
        "`storage`",
        in_profile=True,
    ),
    _used("development", _T.BOOLEAN, "A flow that fails is not retried.", "`false`", in_profile=True),
    _used(
        "configuration",
        _T.MAP,
        "Parameters and Spark configuration. Queries read them with `spark.conf.get` and `${key}`. All values are "
        "strings. Some keys have a [meaning to Headrace](#configuration).",
        "empty",
        in_profile=True,
    ),
    _used("root_path", _T.TEXT, "Folder whose modules the pipeline's files can import.", "folder of the settings file"),
    _used(
        "libraries",
        _T.SECTIONS,
        "The pipeline's files. Each item has one of the keys below.",
        "`transformations/**`",
    ),
    _used("libraries[].glob", _T.SECTION, "Files that match a pattern."),
    _used("libraries[].glob.include", _T.TEXT, "A file, or `folder/**` for all .py, .sql and .ipynb files below it."),
    _used("libraries[].file", _T.SECTION, "One file."),
    _used("libraries[].file.path", _T.TEXT, "A .py, .sql or .ipynb file, relative to the settings file."),
    _used("libraries[].notebook", _T.SECTION, "One notebook."),
    _used(
        "libraries[].notebook.path",
        _T.TEXT,
        "A notebook, relative to the settings file. The extension (.ipynb, .py or .sql) is optional.",
    ),
    _refused(
        "libraries[].maven",
        _T.ANY_MAP,
        "A Java package.",
        "jars come only from the connectors' lock file",
        "Name a connector in connectors, or set spark.jars in spark_conf.",
    ),
    _refused(
        "libraries[].jar",
        _T.TEXT,
        "A jar.",
        "jars come only from the connectors' lock file",
        "Set spark.jars in spark_conf. Headrace adds it to the jars that it needs itself.",
    ),
    _refused(
        "libraries[].whl",
        _T.TEXT,
        "A Python wheel.",
        "an update uses the packages of the Python environment that runs it",
        "Install the wheel into that environment.",
    ),
)

_OURS = (
    _used("connectors", _T.TEXTS, "Connectors whose jars Spark loads, such as `kafka`.", "none", in_profile=True),
    _used(
        "master",
        _T.TEXT,
        "Spark master of a session that Headrace starts. Without this setting, the variable `HEADRACE_MASTER` sets it. "
        "Under spark-submit, its `--master` wins.",
        "`local[*]`",
        in_profile=True,
    ),
    _used("spark_conf", _T.MAP, "Spark configuration of a session that Headrace starts.", "empty", in_profile=True),
    _used("max_parallel_flows", _T.NUMBER, "How many flows run at the same time.", "`4`", in_profile=True, least=1),
    _used(
        "max_flow_retries",
        _T.NUMBER,
        "How often an update retries a failed flow. Errors that would come back on every retry, such as those of a "
        "Python function or of the query, are not retried.",
        "`2`; `0` in development; no limit in a continuous update",
        in_profile=True,
        least=0,
    ),
    _used(
        "stop_grace_seconds",
        _T.NUMBER,
        "Stop timeout: how long running batches may take to finish when an update is stopped.",
        "`10`",
        in_profile=True,
        least=0,
    ),
    _used(
        "paths",
        _T.MAP,
        "Maps the beginning of a path to another one, for Auto Loader and scripts, such as `dbfs:/` to `/data/dbfs`. "
        "The longest match wins. A replacement without a scheme is relative to the settings file.",
        "empty",
        in_profile=True,
    ),
    _used(
        "renames",
        _T.SECTION,
        "Renames datasets and flows, and keeps their data. An entry has no effect once the rename is done.",
    ),
    _used(
        "renames.datasets",
        _T.MAP,
        "Maps the old name of a dataset to the new one. Its table, quarantine, checkpoints, epochs and counters move "
        "with it, and so does a flow without a name of its own.",
        "empty",
    ),
    _used(
        "renames.flows",
        _T.MAP,
        "Maps the old name of a flow to the new one. The flow continues from its checkpoint.",
        "empty",
    ),
    _used("approval", _T.SECTION, "Which [changes](../how-to/change-safely.md) need an approval.", in_profile=True),
    _used(
        "approval.required",
        _T.TEXTS,
        "Classes of changes that need one, as `headrace plan` names them.",
        "`[destructive, rebuild, restart, redeliver]`",
        choices=tuple(known.value for known in ChangeClass),
    ),
    _used(
        "approval.mode",
        _T.TEXT,
        "What an update does whose plan has such a change. `allow`: it runs. `await`: it stops before it writes "
        "anything; an approved plan is applied. `reject`: it stops, and such plans are not applied either.",
        "`allow`",
        choices=tuple(known.value for known in ApprovalMode),
    ),
    _used(
        "approval.four_eyes",
        _T.BOOLEAN,
        "The approval of the person who made the plan does not count.",
        "`false`",
    ),
    _used("maintenance", _T.SECTION, "What `headrace maintain` keeps, and when it works.", in_profile=True),
    _used(
        "maintenance.window",
        _T.TEXT,
        "When it may start an action, such as `01:00-05:00 Europe/Berlin`. Otherwise it says what is due. "
        "`--anytime` overrides it.",
        "always",
    ),
    _used("maintenance.max_minutes", _T.NUMBER, "It starts no further action after this time.", "no limit"),
    _used("maintenance.checkpoints", _T.SECTION, "How long checkpoints of old epochs are kept."),
    _used(
        "maintenance.checkpoints.retain",
        _T.TEXT,
        "How long they are kept after their last batch. The newest two epochs of a flow stay.",
        "forever",
    ),
    _used("maintenance.inactive", _T.SECTION, "How long datasets, flows and views are kept that left the code."),
    _used(
        "maintenance.inactive.retain",
        _T.TEXT,
        "How long they are kept after they were used last. Those with rows stay.",
        "forever",
    ),
    _used(
        "maintenance.vacuum",
        _T.TEXT,
        "Which tables are vacuumed: `views` (materialized views, tables in complete mode, quarantine tables, dead "
        "letters and the memory of change data capture), `all` (streaming tables too), or `off`.",
        "`views`",
    ),
    _used(
        "maintenance.retain",
        _T.TEXT,
        "How long files are kept that tables no longer refer to. Time travel reaches as far back.",
        "`7 days`",
    ),
    _used("maintenance.quarantine", _T.SECTION, "How long quarantined rows and dead letters are kept."),
    _used(
        "maintenance.quarantine.retain", _T.TEXT, "How long rows are kept that were replayed or released.", "`30 days`"
    ),
    _used("maintenance.quarantine.retain_open", _T.TEXT, "How long open rows are kept.", "forever"),
    _used("maintenance.logs", _T.SECTION, "How long the files in `system/logs` are kept."),
    _used(
        "maintenance.logs.retain",
        _T.TEXT,
        "How long log files are kept. Above 1 GiB, the oldest ones are removed earlier.",
        "`14 days`",
    ),
    _used(
        "savepoints",
        _T.SECTION,
        "When updates make [savepoints](../how-to/savepoints.md) by themselves.",
        in_profile=True,
    ),
    _used(
        "savepoints.every",
        _T.TEXT,
        "A completed update makes one if the newest is older, such as `1 hour`, and something has changed. "
        "`update`: each update makes one.",
        "never",
    ),
    _used(
        "savepoints.before_clearing",
        _T.BOOLEAN,
        "An update makes one before a full refresh or a reset that was asked for.",
        "`false`",
    ),
    _used("savepoints.keep", _T.TEXT, "How long those are kept that updates have made.", "`7 days`"),
    _used("savepoints.most", _T.NUMBER, "How many of them are kept.", "`48`"),
    _used("secrets", _T.SECTION, "Where to find secrets, in addition to the environment.", in_profile=True),
    _used(
        "secrets.directory",
        _T.TEXT,
        "Folder with one file per secret, `<scope>/<key>`. `HEADRACE_SECRETS_DIR` overrides it.",
        "none",
    ),
    _used("profile", _T.TEXT, "Profile to use if neither `--profile` nor `HEADRACE_PROFILE` names one.", "none"),
    _used("profiles", _T.NAMED_SECTIONS, "Named sets of values that replace those of the file. Mappings are merged."),
    _used("profiles.*.schema_prefix", _T.TEXT, "Prefix of the schema's name, such as `dev_`.", "empty"),
)

_NO_SERVER = "updates run where the command line runs, so no cloud account is involved"
_TRIGGERED = "the command line starts updates"
_RESTARTS = "whoever starts a continuous update also restarts it"
_OF_STARTER = "an update has the permissions of the user who starts it"

_SERVICE = (
    _used(
        "continuous",
        _T.BOOLEAN,
        "An update runs until it is stopped, as with `headrace run --continuous`.",
        "`false`",
        in_profile=True,
    ),
    _used(
        "parameters",
        _T.MAP,
        "Values of `:name` in SQL files. A value is a string, or a name in `IDENTIFIER(:name)`.",
        "empty",
        in_profile=True,
    ),
    _used(
        "notifications",
        _T.SECTIONS,
        "Mail about updates, in the vendor's format. It is sent over the first SMTP channel of `alerts.deliver`.",
        "none",
        in_profile=True,
    ),
    _used("notifications[].email_recipients", _T.TEXTS, "Addresses. Required."),
    _used(
        "notifications[].alerts",
        _T.TEXTS,
        "When to send: `on-update-success`, `on-update-failure` (an error that a retry can correct), "
        "`on-update-fatal-failure` (any other), `on-flow-failure`. Required.",
    ),
    _used("event_log", _T.SECTION, "A second name for the event log, and how long it keeps events.", "none"),
    _used(
        "event_log.name",
        _T.TEXT,
        "Name of the event log in `headrace sql`, in addition to `event_log`. Required unless you set only how long "
        "events are kept.",
    ),
    _used("event_log.schema", _T.TEXT, "Schema of that name.", "the pipeline's"),
    _used("event_log.catalog", _T.TEXT, "Catalog of that name.", "the pipeline's"),
    _used(
        "event_log.retain",
        _T.TEXT,
        "How long events are kept, such as `90 days`, or `forever`. Older events are removed when the log is "
        "compacted: at the end of an update, and from time to time during a continuous one. Events of the running "
        "update and the newest batch of each flow are kept.",
        "400 days",
        pattern=_RETENTION,
    ),
    _used(
        "event_log.retain_metrics",
        _T.TEXT,
        "The same for events of the level `METRICS`: those of each batch and each report of a stream, also of the "
        "running update. They are most of the log. The totals of each update are kept as long as other events, and "
        "counters of `headrace metrics` continue.",
        "`retain` if you set it, else 30 days",
        pattern=_RETENTION,
    ),
    _used("environment", _T.SECTION, "Python environment of the update."),
    _used(
        "environment.dependencies",
        _T.TEXTS,
        "Python packages, in the syntax of `pip install`. Headrace compares them with the installed ones, and never "
        "installs any.",
        "none",
    ),
    _accepted(
        "environment.environment_version",
        _T.TEXT,
        "Version of the vendor's image.",
        "updates run in your own Python environment",
    ),
    _refused(
        "filters",
        _T.ANY_MAP,
        "Which packages are deployed.",
        "nothing is deployed",
        "Name the files in libraries.",
    ),
    _refused(
        "restart_window",
        _T.ANY_MAP,
        "When a continuous update may restart.",
        _RESTARTS,
        "Remove it, and let your service manager restart the update.",
    ),
    _refused(
        "gateway_definition",
        _T.ANY_MAP,
        "A managed gateway.",
        "managed ingestion is a service of the vendor",
        "Write a flow that reads the source.",
    ),
    _refused(
        "ingestion_definition",
        _T.ANY_MAP,
        "A managed ingestion pipeline.",
        "managed ingestion is a service of the vendor",
        "Write a flow that reads the source.",
    ),
    _refused(
        "rewind_generation_interval",
        _T.ANY_MAP,
        "How often rewind points are created.",
        "rewind points are not supported yet",
        "Remove it.",
    ),
    _refused(
        "dry_run",
        _T.BOOLEAN,
        "Check the pipeline without creating anything.",
        "settings do not decide what a command does",
        "Use headrace validate.",
        "`false`",
    ),
    _used("trigger", _T.SECTION, "Older form of `continuous`, in the vendor's format."),
    _accepted("trigger.manual", _T.ANY_MAP, "Updates are started manually.", _TRIGGERED),
    _used("trigger.cron", _T.SECTION, "A schedule in the vendor's format. Its name is `trigger`."),
    _used(
        "trigger.cron.quartz_cron_schedule",
        _T.TEXT,
        "Times, as a Quartz expression: `0 0 2 * * ?`. Required.",
    ),
    _used("trigger.cron.timezone_id", _T.TEXT, "Time zone of the times.", "`UTC`"),
    _accepted("allow_duplicate_names", _T.BOOLEAN, "Allows a second pipeline with the same name.", _NO_SERVER),
    _accepted("serverless", _T.BOOLEAN, "Runs on the vendor's own compute.", _NO_SERVER),
    _accepted("photon", _T.BOOLEAN, "Uses the vendor's native engine.", "queries run on open-source Spark"),
    _accepted("channel", _T.TEXT, "Version of the vendor's runtime.", "the installed version runs"),
    _accepted("edition", _T.TEXT, "Which paid features are available.", "all features are available"),
    _accepted("tags", _T.MAP, "Labels of the pipeline.", _NO_SERVER),
    _accepted("budget_policy_id", _T.TEXT, "Who pays.", _NO_SERVER),
    _accepted("usage_policy_id", _T.TEXT, "Who pays.", _NO_SERVER),
    _accepted("serverless_compute_id", _T.TEXT, "Which serverless compute is used.", _NO_SERVER),
    _accepted("run_as", _T.SECTION, "Whose permissions an update has.", _OF_STARTER),
    _accepted("run_as.user_name", _T.TEXT, "A user.", _OF_STARTER),
    _accepted("run_as.service_principal_name", _T.TEXT, "A service principal.", _OF_STARTER),
    _accepted("deployment", _T.ANY_MAP, "How the vendor's tools deployed the pipeline.", _NO_SERVER),
)

_MACHINES = "the Spark master decides which machines are used"

_CLUSTERS = (
    _used("clusters", _T.SECTIONS, "Compute, in the vendor's format."),
    _used(
        "clusters[].label",
        _T.TEXT,
        "`default` or `updates`. Values of `updates` override those of `default`. `maintenance` has no effect.",
        "`default`",
        choices=CLUSTER_LABELS,
    ),
    _used(
        "clusters[].spark_conf",
        _T.MAP,
        "Spark configuration of a session that Headrace starts. The top-level `spark_conf` overrides it.",
    ),
    _used("clusters[].autoscale", _T.SECTION, "Sets Spark's dynamic allocation in a session that Headrace starts."),
    _used("clusters[].autoscale.min_workers", _T.NUMBER, "`spark.dynamicAllocation.minExecutors`."),
    _used("clusters[].autoscale.max_workers", _T.NUMBER, "`spark.dynamicAllocation.maxExecutors`."),
    _accepted("clusters[].autoscale.mode", _T.TEXT, "How to scale.", "Spark has only one way to scale"),
    _accepted(
        "clusters[].num_workers", _T.NUMBER, "Number of machines.", "set spark.executor.instances in spark_conf instead"
    ),
    _refused(
        "clusters[].spark_env_vars",
        _T.ANY_MAP,
        "Environment variables.",
        "environment variables must be set before a process starts",
        "Set them where headrace is started, and for executors as spark.executorEnv.NAME in spark_conf.",
    ),
    _refused(
        "clusters[].init_scripts",
        _T.ANY_LIST,
        "Scripts that prepare a machine.",
        "an update does not start machines",
        "Run the scripts when the machines are set up.",
    ),
    _refused(
        "clusters[].enable_local_disk_encryption",
        _T.BOOLEAN,
        "Encrypts local disks.",
        "updates do not encrypt the disks of machines",
        "Encrypt the disks, and set spark.io.encryption.enabled in spark_conf.",
        "`false`",
    ),
    _accepted("clusters[].node_type_id", _T.TEXT, "Machine type of the workers.", _MACHINES),
    _accepted("clusters[].driver_node_type_id", _T.TEXT, "Machine type of the driver.", _MACHINES),
    _accepted("clusters[].instance_pool_id", _T.TEXT, "Machine pool of the workers.", _MACHINES),
    _accepted("clusters[].driver_instance_pool_id", _T.TEXT, "Machine pool of the driver.", _MACHINES),
    _accepted("clusters[].policy_id", _T.TEXT, "Limits that an administrator has set.", _MACHINES),
    _accepted("clusters[].apply_policy_default_values", _T.BOOLEAN, "Uses the values of the policy.", _MACHINES),
    _accepted("clusters[].custom_tags", _T.MAP, "Labels of the machines.", _MACHINES),
    _accepted("clusters[].cluster_log_conf", _T.ANY_MAP, "Where logs go.", "logs are in <storage>/system/logs"),
    _accepted("clusters[].ssh_public_keys", _T.TEXTS, "Who may log in.", _MACHINES),
    _accepted("clusters[].aws_attributes", _T.ANY_MAP, "Attributes of AWS machines.", _MACHINES),
    _accepted("clusters[].azure_attributes", _T.ANY_MAP, "Attributes of Azure machines.", _MACHINES),
    _accepted("clusters[].gcp_attributes", _T.ANY_MAP, "Attributes of Google Cloud machines.", _MACHINES),
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
    *ALERT_KEYS,
    *LINEAGE_KEYS,
    *SCHEDULE_KEYS,
    *STORE_KEYS,
    *CATALOG_KEYS,
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


SETTINGS = KeyTable(KEYS, "docs/reference/settings.md", repeated="profiles.*")


def keys_below(path: str) -> Mapping[str, Key]:
    """The keys of the mapping at *path* (empty: the top level), by name."""
    return SETTINGS.below(path)
