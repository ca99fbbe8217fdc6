"""Files of `skdp.save` with forged content."""

import io
import zipfile

import skops.io

import skdp

TRUSTED = ["skdp.persistence.Record", "numpy.dtype"]


def save_bytes(estimator):
    """Return the bytes of a file."""
    file = io.BytesIO()
    skdp.save(estimator, file)
    return file.getvalue()


def list_members(data):
    """Return the contents of the members of a ZIP file as one string of bytes."""
    file = zipfile.ZipFile(io.BytesIO(data))
    return b"".join(map(file.read, file.namelist()))


def content_of(data):
    """Return the state of the estimator in a file."""
    return {"estimator": skops.io.loads(data, trusted=TRUSTED).state}


def forge_file(data, change):
    """Return a file with an estimator that a function has changed."""
    record = skops.io.loads(data, trusted=TRUSTED)
    change(record.state)
    return write_record(record)


def write_record(record):
    """Return a file of a record, with the version of the format."""
    file = io.BytesIO(skops.io.dumps(record))
    add_version(file)
    return file.getvalue()


def add_version(file):
    """Add the version of the format to an open file of skops."""
    with zipfile.ZipFile(file, "a") as members:
        members.writestr("skdp-version.txt", "2")
