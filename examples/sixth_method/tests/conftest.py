"""The tiny encoders, the blocked network and the common cases of eventformers' own tests.

They are in a checkout of eventformers: the one that is installed with `pip install -e`, or one around this
package.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


def tests_of_eventformers() -> Path:
    """Find the folder of the common cases without an import, which would read variables that they set."""
    spec = find_spec("eventformers")
    installed = Path(spec.origin).resolve().parents if spec and spec.origin else ()
    for place in (*installed, *Path(__file__).resolve().parents):
        if (place / "tests" / "support" / "method_case.py").is_file():
            return place / "tests"
    raise pytest.UsageError(
        "the common cases of eventformers are in its checkout, which is not installed; install it with "
        "pip install -e CHECKOUT"
    )


TESTS = tests_of_eventformers()
sys.path[:0] = [str(TESTS), str(TESTS / "support"), str(TESTS / "hub")]

pytest_plugins = ["conftest"]
