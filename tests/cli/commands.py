"""Commands that run in the process of the tests."""

import pytest

from skdp.cli import main


def call(*words):
    return main(list(map(str, words)))


def refuse(capsys, *words):
    """Run a command that exits with an error; return its message."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        call(*words)
    assert caught.value.code == 2
    return capsys.readouterr().err
