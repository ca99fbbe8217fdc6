import pytest


@pytest.fixture(autouse=True)
def change_folder(tmp_path, monkeypatch):
    """Run each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
