"""Importing the package, as a user who turns warnings into errors does."""

import subprocess
import sys


def test_the_import_warns_of_nothing():
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import skdp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
