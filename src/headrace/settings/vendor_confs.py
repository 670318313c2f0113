"""Spark settings that only the vendor's sessions know, and their equivalents in a notebook session, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RETRIES, RETRY_INTERVAL = "spark.sql.streaming.maxRetries", "spark.sql.streaming.retryIntervalMs"
STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_OPTIMIZE_WRITE = "spark.databricks.delta.optimizeWrite.enabled"
_AUTO_COMPACT = "spark.databricks.delta.autoCompact.enabled"


class Effect(str, Enum):
    """The effect of a setting."""

    USED = "used"
    NONE = "accepted without effect"


@dataclass(frozen=True)
class VendorConf:
    """One of the vendor's settings, or all with a prefix (``name.*``).

    Attributes:
        name: as scripts write it.
        value: the value that it applies to; None for every value.
        effect: its effect.
        about: how it is used, or why it has no effect.
        becomes: the equivalent settings of open-source Spark and Delta; ``{value}`` is the given value.
    """

    name: str
    effect: Effect
    about: str
    value: str | None = None
    becomes: Mapping[str, str] | None = None

    def matches(self, key: str, value: str) -> bool:
        """True if the entry applies to a setting."""
        begin = self.name.removesuffix("*")
        named = key == self.name or (self.name.endswith(".*") and key.startswith(begin))
        return named and (self.value is None or self.value.casefold() == value.strip().casefold())


_SAME = "Delta's setting of the same meaning"
VENDOR_CONFS: tuple[VendorConf, ...] = (
    VendorConf(
        STATE_PROVIDER,
        Effect.USED,
        "Spark's RocksDB provider, which is the default here",
        "com.databricks.sql.streaming.state.RocksDBStateStoreProvider",
        {STATE_PROVIDER: ROCKSDB},
    ),
    VendorConf(
        _PARTITIONS,
        Effect.USED,
        "the number of cores, and Spark coalesces partitions in queries without state",
        "auto",
        {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.coalescePartitions.enabled": "true"},
    ),
    *(
        VendorConf(f"spark.databricks.delta.autoOptimize.{name}", Effect.USED, _SAME, None, {becomes: "{value}"})
        for name, becomes in (
            ("optimizeWrite", _OPTIMIZE_WRITE),
            ("optimizeWrite.enabled", _OPTIMIZE_WRITE),
            ("autoCompact", _AUTO_COMPACT),
            ("autoCompact.enabled", _AUTO_COMPACT),
        )
    ),
    VendorConf(RETRIES, Effect.USED, "how often in a row a stream is restarted after a temporary failure"),
    VendorConf(RETRY_INTERVAL, Effect.USED, "how long to wait before a restart, in milliseconds (default 2000)"),
    VendorConf(
        "spark.databricks.cloudFiles.*",
        Effect.NONE,
        "set schema inference with Auto Loader's options, such as cloudFiles.inferColumnTypes",
    ),
    VendorConf("spark.databricks.io.cache.*", Effect.NONE, "the vendor's disk cache does not exist here"),
    VendorConf("spark.databricks.photon.*", Effect.NONE, "queries run on Spark's own engine"),
    VendorConf("spark.databricks.service.*", Effect.NONE, "the session runs in this process"),
    VendorConf("spark.databricks.streaming.*", Effect.NONE, "it is a setting of the vendor's engine"),
    VendorConf("spark.databricks.*", Effect.NONE, "neither Spark nor Delta has this setting"),
)
# Prefix of Delta's default properties of new tables.
_TABLE_DEFAULTS = "spark.databricks.delta.properties.defaults."
# SQL settings that are only read when a session starts.
_STATIC_SQL = (
    r"extensions|warehouse\.dir|catalogImplementation|catalog\..*|ui\.retained.*|queryExecutionListeners"
    r"|streaming\.streamingQueryListeners|streaming\.ui\..*|globalTempDatabase|cache\.serializer|debug"
    r"|codegen\.(cache\.maxEntries|comments)|defaultUrlStreamHandlerFactory\.enabled|event\.truncate\.length"
    r"|(broadcastExchange|resultQueryStage|shuffleExchange|subquery)\.maxThreadThreshold|metadataCacheTTLSeconds"
    r"|filesourceTableRelationCacheSize|hive\.(metastore\..*|thriftServer\.singleSession|version)"
    r"|legacy\.sessionInitWithConfigDefaults"
    r"|sources\.(disabledJdbcConnProviderList|schemaStringLengthThreshold)"
)
# Prefixes of other such settings, and single names where users have settings of their own with the same prefix. Any
# other name that starts with "spark." may be a setting of the script.
_STATIC_GROUPS = (
    r"acls|authenticate|blockManager|broadcast|cleaner|driver|driverEnv|dynamicAllocation|eventLog|excludeOnFailure"
    r"|executor|executorEnv|extraListeners|files|hadoop|hadoopRDD|history|io|jars|kerberos|kryo|kryoserializer"
    r"|kubernetes|locality|memory|network|plugins|pyspark|python|rdd|reducer|rpc|scheduler|serializer|shuffle"
    r"|speculation|ssl|storage|submit|ui|unsafe|yarn"
)
_STATIC_NAMES = (
    r"(admin|modify)\.acls(\.groups)?|api\.mode|app\.attempt\.id|appStateStore\.asyncTracking\.enable|archives"
    r"|barrier\.sync\.timeout|block\.failures\.beforeLocationRefresh|buffer\.(pageSize|size|write\.chunkSize)"
    r"|checkpoint\.(compress|dir)|connect\.scalaUdf\.stubPrefixes|cores\.max|decommission\.enabled|default\.parallelism"
    r"|diskStore\.subDirectories|file\.transferTo|local\.dir|log\.(callerContext|legacyTaskNameMdc\.enabled|level)"
    r"|kafka\.(clusters|(consumer|producer)\.(cache|fetchedData\.cache))\..*"
    r"|log\.structuredLogging\.enabled|logConf|master|metrics\.(conf|conf\..*|namespace)"
    r"|metrics\.(appStatus|executorMetrics|static)Sources?\.enabled|port\.maxRetries|redaction\.(string\.)?regex|remote"
    r"|resources\.discoveryPlugin|security\.credentials\.(renewalRatio|retryWait)|shutdown\.timeout"
    r"|stage\.(ignoreDecommissionFetchFailure|maxAttempts|maxConsecutiveAttempts)"
    r"|task\.(cpus|maxDirectResultSize|maxFailures|reaper\..*|resource\..*)|taskMetrics\.trackUpdatedBlockStatuses"
    r"|user\.groups\.mapping"
)
_STATIC_DELTA = (
    r"(catalog\.update|checkpointV2|commitMetrics|coordinatedCommits\.getCommits)\.thread[Pp]ool\.?[sS]ize"
    r"|clusteredTable\.numClusteringColumnsLimit|command\.fileMaterializationLimit\.softMax"
    r"|merge\.materializeSource\.maxAttempts"
)
_STATIC = re.compile(
    rf"spark\.(sql\.({_STATIC_SQL})|databricks\.delta\.({_STATIC_DELTA})|({_STATIC_GROUPS})(\..*)?|{_STATIC_NAMES})"
)
# Set by the notebook session itself.
FIXED: Mapping[str, str] = {
    "spark.sql.catalogImplementation": "tables are found in the storage, without a metastore",
    "spark.sql.warehouse.dir": "tables are in the storage",
    "spark.sql.catalog.spark_catalog": "the session uses Delta's catalog",
    "spark.databricks.service.address": "the session runs in this process",
    "spark.remote": "the session runs in this process",
}
# Table properties that Delta refuses, because only the vendor's Delta knows them.
VENDOR_PROPERTIES: Mapping[str, str] = {
    "delta.tuneFileSizesForRewrites": "Delta's settings determine file sizes",
    "delta.targetFileSize": "Delta's settings determine file sizes",
    "delta.enablePredictiveOptimization": "tables are not optimized in the background; run OPTIMIZE",
    "delta.autoOptimize.autoCompact.enabled": "use delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite.enabled": "use delta.autoOptimize.optimizeWrite",
}


def vendor_conf(key: str, value: str) -> VendorConf | None:
    """The entry that applies to a setting, or None if it is not specific to the vendor."""
    if key.startswith(_TABLE_DEFAULTS):
        return None
    return next((conf for conf in VENDOR_CONFS if conf.matches(key, value)), None)


def to_open_source_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """Replace the vendor's settings by those of open-source Spark and Delta.

    Settings without effect stay: nothing reads them.
    """
    found: dict[str, str] = {}
    for key, value in confs.items():
        entry = vendor_conf(key, value)
        becomes = None if entry is None else entry.becomes
        found |= {key: value} if becomes is None else {ours: text.format(value=value) for ours, text in becomes.items()}
    return found


def is_static(key: str) -> bool:
    """True for a Spark setting that is only read when a session starts.

    False for a setting of the script, whatever its prefix.
    """
    return _STATIC.fullmatch(key) is not None
