"""A ZIP archive of texts and arrays: reading it runs nothing, and its size bounds the memory that is taken.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from tokenize import TokenError
from typing import Any, BinaryIO, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

LONGEST_TEXT = 1 << 24
"""Bytes of a part of text: as lists and numbers it takes twenty times as much memory."""

SUMS = "SHA256SUMS"
"""The part that lists the digests of all others, in the format of `sha256sum`."""

_FREE_SIZE, _LARGEST_RATIO, _MOST_PARTS = 1 << 26, 100, 1 << 16
"""A file of more bytes than the first must not unpack to more than the second times its own size."""

_MOST_CODE = 0x10FFFF
_CHUNK = 1 << 20

DAMAGE = (
    *(
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ),
    *(BadZipFile, OSError, zlib.error, struct.error, SyntaxError, TokenError),
)
"""What a damaged file may raise, turned into one ValueError that names the part."""

# Only what numpy itself writes: nothing is evaluated, as numpy.load does.
_HEADER = re.compile(
    r"\{'descr': '([<|](?:[biufSU][1-9]\d{0,8}|[mM]8(?:\[\d{0,9}[A-Za-z]{1,2}\])?))', "
    r"'fortran_order': (True|False), 'shape': \(((?:\d{1,18}(?:, |,|(?=\))))*)\), \} *\n"
)


@contextmanager
def reading(part: str) -> Iterator[None]:
    """Turn what a damaged part raises into an error that names it."""
    try:
        yield
    except ImportError:
        raise
    except DAMAGE as error:
        detail = str(error) if type(error) is ValueError else type(error).__name__
        raise ValueError(f"the {part} of the file cannot be read: {detail}") from None


def write_archive(
    path: Any, parts: Mapping[str, str | NDArray[Any]], *, sums: bool = False
) -> None:
    """Write texts and arrays to a file, without the time: the same parts give the same file."""
    for name, part in parts.items():
        if isinstance(part, str) and len(part) > LONGEST_TEXT:  # ASCII
            raise ValueError(
                f"{name} has {len(part):,} characters; at most {LONGEST_TEXT:,} are saved"
            )
    large = (
        sum(part.nbytes for part in parts.values() if not isinstance(part, str))
        > _FREE_SIZE // 2
    )
    digests = []
    with ZipFile(path, "w") as file:
        for name, part in parts.items():
            info, digest = ZipInfo(name), hashlib.sha256()
            info.compress_type = (
                ZIP_STORED if large and not isinstance(part, str) else ZIP_DEFLATED
            )
            with file.open(info, "w", force_zip64=not isinstance(part, str)) as opened:
                for piece in (part.encode(),) if isinstance(part, str) else _npy(part):
                    digest.update(piece)
                    opened.write(piece)
            digests.append(f"{digest.hexdigest()}  {name}\n")
        if sums:
            info = ZipInfo(SUMS)
            info.compress_type = ZIP_DEFLATED
            file.writestr(info, "".join(digests))


def _npy(array: NDArray[Any]) -> Iterator[Any]:
    """Iterate over the header and the bytes of an array in numpy's format, with the lowest byte first."""
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    header = io.BytesIO()
    about = {
        "descr": array.dtype.str,
        "fortran_order": by_columns,
        "shape": array.shape,
    }
    np.lib.format.write_array_header_1_0(header, about)
    yield header.getvalue()
    flat = (
        np.ascontiguousarray(array.T if by_columns else array)
        .reshape(-1)
        .view(np.uint8)
    )
    yield from (
        flat[start : start + _CHUNK].data for start in range(0, flat.size, _CHUNK)
    )


_ARCHIVES = {
    "estimator.json": ("skdp.save", "skdp.load"),
    "header.json": ("DPMarginalSynthesizer.save", "DPMarginalSynthesizer.load"),
}
"""The first part of each kind of archive, what writes it and what reads it."""

_TEXTS = {
    '"skdp-protocol"': "the protocol of a fitted transformer, which `load` of its class reads",
    '"skdp_ledger"': "a ledger, which skdp.PrivacyLedger(path) opens",
    '"skdp-ledger"': "the record of a ledger, which skdp.PrivacyLedger.from_json reads",
    '"skdp-guarantee"': "a guarantee, which skdp.PrivacyGuarantee.from_json reads",
}
"""What is near the beginning of each kind of text."""

_BEGINNING = 200


def what_it_is(file: Any) -> str:
    """Say what a file is, if it is of another kind that skdp writes, as the end of an error."""
    try:
        with ExitStack() as stack:
            opened: BinaryIO = (
                file if hasattr(file, "read") else stack.enter_context(open(file, "rb"))
            )
            opened.seek(0)
            beginning = opened.read(_BEGINNING).decode("utf-8", "replace")
            if not beginning.startswith("PK"):
                return next(
                    (
                        f"; it is {name}"
                        for mark, name in _TEXTS.items()
                        if mark in beginning
                    ),
                    "",
                )
            names = ZipFile(opened).namelist()
    except DAMAGE:
        return ""
    for header, (writer, reader) in _ARCHIVES.items():
        if header in names:
            return f"; it is what {writer} wrote: use {reader}"
    return ""


class Archive:
    """A file that `write_archive` wrote, or that pretends to be one."""

    def __init__(self, path: Any, header: str) -> None:
        with ExitStack() as stack:
            opened: BinaryIO = (
                path if hasattr(path, "read") else stack.enter_context(open(path, "rb"))
            )
            whose = f"this is no file that {_ARCHIVES[header][0]} wrote"
            try:
                self._file = stack.enter_context(ZipFile(opened))
            except DAMAGE:
                raise ValueError(whose + what_it_is(opened)) from None
            if header not in self._file.namelist() and (other := what_it_is(opened)):
                raise ValueError(whose + other)
            _check_size(self._file, opened)
            self._open = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @property
    def names(self) -> set[str]:
        """The names of the parts."""
        return set(self._file.namelist())

    def text(self, name: str, longest: int = LONGEST_TEXT) -> str:
        """Read a text."""
        size = self._file.getinfo(name).file_size
        if size > longest:
            raise ValueError("it is too long")
        with self._file.open(name) as part:
            return part.read(
                size + 1
            ).decode()  # without a number, zipfile unpacks more than the stated size

    def array(self, name: str, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Read an array, if given of a known shape; memory is taken only for what the file really has."""
        size = self._file.getinfo(name).file_size
        with self._file.open(name) as part:
            magic = part.read(10)
            if len(magic) < 10 or magic[:8] != b"\x93NUMPY\x01\x00":
                raise ValueError("an array is of another kind")
            length = int.from_bytes(magic[8:], "little")
            found = _HEADER.fullmatch(part.read(length).decode("latin-1"))
            if found is None:
                raise ValueError("an array is of another kind")
            dtype = np.dtype(found[1])
            given = tuple(map(int, re.findall(r"\d+", found[3])))
            if (
                shape not in (None, given)
                or dtype.itemsize * math.prod(given) != size - 10 - length
                or len(given) > 32
            ):
                raise ValueError("an array has another shape")
            data = np.empty(math.prod(given), dtype)
            raw, place = data.view(np.uint8), 0
            while piece := part.read(
                _CHUNK
            ):  # the end of the part, too, where its checksum is compared
                raw[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
                place += len(piece)
        if place != raw.size:
            raise ValueError("an array has another shape")
        if (dtype.kind == "b" and (raw > 1).any()) or (
            dtype.kind == "U" and (raw.view("<u4") > _MOST_CODE).any()
        ):
            raise ValueError("an array holds no values of its type")
        return data.reshape(given, order="F" if found[2] == "True" else "C")

    def check_sums(self) -> None:
        """Check that the parts are those whose digests the file lists."""
        listed = [line.split("  ", 1) for line in self.text(SUMS).splitlines()]
        digests = {name: digest for digest, name in listed}
        if len(digests) < len(listed) or digests.keys() != self.names - {SUMS}:
            raise ValueError("it has other parts than it lists")
        for name, digest in digests.items():
            found = hashlib.sha256()
            with self._file.open(name) as part:
                while piece := part.read(_CHUNK):
                    found.update(piece)
            if found.hexdigest() != digest:
                raise ValueError(f"{name} was changed")


def _check_size(file: ZipFile, opened: BinaryIO) -> None:
    """Refuse a file that would unpack to very many times its size, before anything is unpacked."""
    size = opened.seek(0, os.SEEK_END)
    infos = file.infolist()
    unpacked = sum(info.file_size for info in infos)
    if unpacked > max(_FREE_SIZE, _LARGEST_RATIO * size):
        raise ValueError(
            f"the file is too large: it would unpack to {unpacked:,} bytes, from {size:,}"
        )
    if len(infos) > _MOST_PARTS or len({info.filename for info in infos}) < len(infos):
        raise ValueError("the file has two parts of one name, or too many")
    if any(
        info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED)
        for info in infos
    ):
        raise ValueError(
            "the file has parts that are encrypted, or compressed in another way"
        )
