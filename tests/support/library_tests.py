"""The common tests of transformers and PEFT, which are in their source distributions, not in their wheels."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import transformers

VARIABLE = "EVENTFORMERS_LIBRARY_TESTS"
"""Names the folder with the unpacked source distributions."""

ALL_METHODS = "EVENTFORMERS_LIBRARY_TESTS_OF_ALL" in os.environ
"""True if the tests run for all methods, and not only for those that are most unlike the others."""


def library_tests(library: str, name: str, absent: Mapping[str, Mapping[str, Any]]) -> ModuleType:
    """Import a module of a library's tests; without the source distribution, skip the importing module.

    Args:
        library: the library.
        name: name of the module.
        absent: modules that it imports, relatively if their names begin with a dot, but that are neither
            installed nor in the source distribution, with the names that it imports from them.
    """
    distribution = f"{library}-{version(library)}"
    folder = Path(os.environ.get(VARIABLE, ""), distribution, "tests")
    if VARIABLE not in os.environ or not (folder / f"{name}.py").is_file():
        pytest.skip(
            f"{VARIABLE} names no folder with {distribution}; see CONTRIBUTING.md", allow_module_level=True
        )
    pytest.importorskip("parameterized", reason="parameterized is not installed")
    package = f"tests_of_{library}"
    stubs = {package: ModuleType(package)}
    stubs[package].__path__ = [str(folder)]
    for module, contents in absent.items():
        stub = ModuleType(module)
        vars(stub).update(contents, __path__=[])
        stubs[f"{package}{module}" if module.startswith(".") else module] = stub
    added = stubs.keys() - sys.modules.keys()
    sys.modules.update({module: stubs[module] for module in added})
    try:
        # It would import transformers from the folder above the tests.
        with mock.patch("transformers.utils.direct_transformers_import", return_value=transformers):
            return importlib.import_module(f"{package}.{name}")
    finally:
        for module in added & absent.keys():
            # A library that is not installed must not seem to be.
            del sys.modules[module]


def skip_tests(tests: type, reasons: Mapping[str, str]) -> None:
    """Skip tests of a class that do not apply.

    Args:
        tests: the class.
        reasons: the reason by the name of the test.
    """
    for name, reason in reasons.items():
        assert hasattr(tests, name), f"{tests.__name__} has no test {name}"

        @pytest.mark.skip(reason=reason)
        def skipped(self: object) -> None: ...

        setattr(tests, name, skipped)
