"""The tiny encoders, the blocked network and the common cases of eventformers' own tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[3] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "support"), str(TESTS / "hub")]

pytest_plugins = ["conftest"]
