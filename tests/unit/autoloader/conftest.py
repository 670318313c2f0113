"""What tests of Auto Loader share."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def data(tmp_path):
    """The folder that is read."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def aws():
    """A server that answers as Amazon's do, and the environment that leads there."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - for the tests that need it

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_REGION", "eu-west-1")
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        yield server
    server.stop()


@pytest.fixture
def bucket(aws):
    """A bucket of its own for each test, as boto3 has it."""
    import boto3  # noqa: PLC0415 - for the tests that need it

    made = boto3.resource("s3").create_bucket(
        Bucket=f"landing-{uuid.uuid4().hex[:12]}", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    assert aws
    return made
