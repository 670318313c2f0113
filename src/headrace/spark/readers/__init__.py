"""The formats of ``spark.read`` and ``spark.readStream``: Auto Loader, Kafka, Delta, Debezium and others."""

# The modules that other packages may import.
__all__ = [
    "auto_loader",
    "confluent",
    "custom_formats",
    "debezium",
    "delta_reader",
    "input_file",
    "kafka_reader",
    "kafka_topics",
    "state_reader",
]
