"""Files of `skdp.save` with forged content."""

import io

import skops.io

import skdp

TRUSTED = ["skdp.persistence.Record", "numpy.dtype"]


def save_bytes(estimator):
    """Return the bytes of a file."""
    file = io.BytesIO()
    skdp.save(estimator, file)
    return file.getvalue()


def content_of(data):
    """Return the state of the estimator in a file."""
    return {"estimator": skops.io.loads(data, trusted=TRUSTED).state}


def forge_file(data, change):
    """Return a file with an estimator that a function has changed."""
    record = skops.io.loads(data, trusted=TRUSTED)
    change(record.state)
    return skops.io.dumps(record)
