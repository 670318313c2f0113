"""The formats of ``spark.read`` and ``spark.readStream``: Auto Loader, Kafka, Delta, Debezium and others."""
