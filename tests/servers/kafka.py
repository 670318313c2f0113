"""A real Kafka broker of one process, on 127.0.0.1: with plain text, and with SASL PLAIN over TLS."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from itertools import count

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from tests.servers.certificates import make_certificate
from tests.servers.jars import server_jars

from headrace.connectors.java import java_command

_LONGEST_START_S = 120
_CALL_S = 30
USER, PASSWORD = (
    "$ConnectionString",
    "Endpoint=sb://127.0.0.1/;SharedAccessKeyName=reader;SharedAccessKey=c2VjcmV0LWtleQ==",
)
_CONFIG = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
delete.topic.enable=true
log.retention.ms=-1
"""


class KafkaBroker:
    """One broker with its data in *folder*; stopped and started again, it has the same ports and data.

    With *hub*, its password is the connection string of an event hub of that name, and leads to the broker.
    """

    def __init__(self, folder, hub=None):
        self.folder = folder
        self._names = count()
        self._process = None
        self._client = None
        plain, secure, controller = _free_ports(3)
        self.servers, self.secure_servers = f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
        self.password = PASSWORD
        if hub is not None:
            self.password = PASSWORD.replace("127.0.0.1", self.secure_servers) + f";EntityPath={hub}"
        certificate, self.trusted = make_certificate(folder, "broker")
        _, self.untrusted = make_certificate(folder, "stranger")
        self._config = folder / "server.properties"
        self._config.write_text(
            _CONFIG.format(
                plain=plain,
                secure=secure,
                controller=controller,
                user=USER,
                password=self.password,
                certificate=certificate,
                data=folder / "data",
            )
        )
        self._java("kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", self._config).wait(60)

    def start(self):
        """Return once it answers."""
        self._process = self._java("kafka.Kafka", self._config)
        deadline = time.monotonic() + _LONGEST_START_S
        while True:
            assert self._process.poll() is None, (self.folder / "kafka.log").read_text()[-2000:]
            try:
                self._admin().list_topics(timeout=1)
            except KafkaException:
                assert time.monotonic() < deadline, "the broker does not answer"
            else:
                return

    def stop(self):
        """Return once the process is gone."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def topic(self, partitions=1, **config):
        """The name of a new topic."""
        name = f"topic-{next(self._names)}-{uuid.uuid4().hex[:6]}"
        self.create(name, partitions, **config)
        return name

    def create(self, name, partitions=1, **config):
        """Make a topic with a given name."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        made = self._admin().create_topics([NewTopic(name, partitions, 1, config=settings)])
        _done(made)

    def produce(self, topic, *values, partition=0, key=None, headers=None, timestamp_ms=None):
        """Write values to one partition, in their order, and return once they are there; None is a tombstone."""
        producer = Producer({"bootstrap.servers": self.servers})
        failures = []
        more = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        for value in values:
            producer.produce(
                topic,
                value if value is None or isinstance(value, bytes) else str(value).encode(),
                key,
                partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                headers=headers,
                **more,
            )
        assert producer.flush(_CALL_S) == 0
        assert not failures, failures

    def records(self, topic):
        """All records of a topic that are there now, as its clients give them."""
        settings = {"bootstrap.servers": self.servers, "group.id": "test", "enable.auto.commit": False}
        consumer = Consumer({**settings, "enable.partition.eof": True})
        partitions = self._admin().list_topics(topic, timeout=_CALL_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            record = consumer.poll(_CALL_S)
            assert record is not None, f"{topic} does not answer"
            if record.error() is None:
                found.append(record)
            else:
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                ended += 1
        consumer.close()
        return found

    def add_partitions(self, topic, total):
        """Let a topic have more partitions."""
        _done(self._admin().create_partitions([NewPartitions(topic, total)]))

    def delete(self, topic):
        """Delete a topic, and return once it is gone."""
        _done(self._admin().delete_topics([topic]))
        deadline = time.monotonic() + _CALL_S
        while topic in self._admin().list_topics(timeout=_CALL_S).topics:
            assert time.monotonic() < deadline, f"{topic} is still there"

    def forget(self, topic, below, partition=0):
        """Take away the records below an offset, as retention does."""
        _done(self._admin().delete_records([TopicPartition(topic, partition, below)]))

    def end(self, topic, partition=0):
        """The offset behind the last record."""
        asked = {TopicPartition(topic, partition): OffsetSpec.latest()}
        (found,) = self._admin().list_offsets(asked).values()
        return found.result(_CALL_S).offset

    def _admin(self):
        # Kept: what it has been asked ends with it.
        if self._client is None:
            self._client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._client

    def _java(self, main, *arguments):
        with (self.folder / "kafka.log").open("ab") as log:
            return subprocess.Popen(
                [
                    *(java_command(os.environ), "-Xmx256m", "-XX:+UseSerialGC"),
                    *("-cp", os.pathsep.join(map(str, server_jars("kafka"))), main, *map(str, arguments)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _done(futures):
    for future in futures.values():
        future.result(_CALL_S)


def _free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
