"""The JVM through py4j: its start, its log, class names, plan nodes, causes of exceptions."""
