"""The JVM through py4j: its launch, its log, class names, plan nodes, causes of exceptions."""

# The modules that other packages may import.
__all__ = [
    "call_sites",
    "callback_connections",
    "causes",
    "class_names",
    "executor_times",
    "jvm_state",
    "launch",
    "plan_nodes",
    "process",
    "spark_log",
]
