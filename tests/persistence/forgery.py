"""Files of `skdp.save` with other content, whose digest fits: as an attacker would make them."""

import hashlib
import io
import json

import skdp


def saved(estimator, **options):
    """Return the bytes of a file."""
    file = io.BytesIO()
    skdp.save(estimator, file, **options)
    return file.getvalue()


def content_of(data):
    """Return the JSON of a file, without its digest."""
    content = json.loads(data)
    del content["sha256"]
    return content


def signed(text):
    """Return a file of a JSON object, with the digest of all lines but the last two."""
    body = text.strip().removesuffix("}").rstrip() + ",\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body} "sha256": "{digest}"\n}}\n'.encode()


def forged(data, change):
    """Return a file whose estimator a function has changed."""
    content = content_of(data)
    change(content["estimator"])
    return signed(json.dumps(content))
