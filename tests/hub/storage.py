"""Where the loopback Hub keeps bytes under keys: in memory or in a folder."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol


class RefusedError(Exception):
    """A request that the Hub does not do, with the status and the code that the client reads."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers, self.body = dict(headers or {}), dict(body or {})


class Storage(Protocol):
    """Bytes by key. A missing key is a `KeyError`; what is written is there whole or not at all."""

    def open(self, key: str) -> BinaryIO: ...

    def size(self, key: str) -> int: ...

    def write(self, key: str, chunks: Iterable[bytes]) -> None: ...

    def delete(self, key: str) -> None: ...

    def keys(self, prefix: str) -> list[str]: ...


class MemoryStorage:
    """Everything in memory, gone with the process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self._values[key])

    def size(self, key: str) -> int:
        return len(self._values[key])

    def write(self, key: str, chunks: Iterable[bytes]) -> None:
        self._values[key] = b"".join(chunks)

    def delete(self, key: str) -> None:
        del self._values[key]

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self._values if key.startswith(prefix))


class FolderStorage:
    """Everything in files below a folder; a file is written under another name and then renamed."""

    _part = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._arriving = folder / "arriving"
        self._arriving.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(self._part.fullmatch(part) for part in parts):
            raise KeyError(key)
        return self.folder.joinpath(*parts)

    def open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except FileNotFoundError:
            raise KeyError(key) from None

    def size(self, key: str) -> int:
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            raise KeyError(key) from None

    def write(self, key: str, chunks: Iterable[bytes]) -> None:
        path = self._path(key)
        handle, name = tempfile.mkstemp(dir=self._arriving)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(chunks)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def delete(self, key: str) -> None:
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None

    def keys(self, prefix: str) -> list[str]:
        base = self._path(prefix.rstrip("/"))
        return sorted(path.relative_to(self.folder).as_posix() for path in base.rglob("*") if path.is_file())
