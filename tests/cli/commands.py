"""Commands that run in the process of the tests."""

import narwhals.stable.v2 as nw
import pytest

from skdp import Domain
from skdp.cli import main
from skdp.engines import TableFile, draft_domain_toml


def call(*words):
    return main(list(map(str, words)))


def draft_frame(frame, **options):
    """Draft a table in memory as ``skdp draft-domain`` drafts a Parquet file."""
    return draft_domain_toml([nw.from_native(frame, eager_only=True).to_arrow()], **options)


def draft_csv(path, **options):
    """Draft a CSV file; return the domain."""
    file = TableFile(path)
    return Domain.from_toml(draft_domain_toml(file.read(file.names), has_texts=True, **options))


def refuse(capsys, *words):
    """Run a command that exits with an error; return its message."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        call(*words)
    assert caught.value.code == 2
    return capsys.readouterr().err
