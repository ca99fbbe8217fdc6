"""A ZIP archive of texts and arrays: reading it runs nothing, and its size bounds the memory that is taken.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

import hashlib
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

# Bytes of a part of text: as lists and numbers it takes twenty times as much memory.
LONGEST_TEXT = 1 << 24

# The part that lists the digests of all others, in the format of `sha256sum`.
SUMS = "SHA256SUMS"

# A file of more bytes than the first must not unpack to more than the second times its
# own size.
_FREE_SIZE, _LARGEST_RATIO, _MOST_PARTS = 1 << 26, 100, 1 << 16

# The last character of Unicode.
_MOST_CODE = 0x10FFFF

_MOST_AXES = 32
_CHUNK = 1 << 20

# What a damaged file may raise, turned into one ValueError that names the part.
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


class _DigestedFile:
    """A part that is written, and the digest of what was."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self._file.write(data)


def write_archive(
    path: Any, parts: Mapping[str, str | NDArray[Any]], *, sums: bool = False
) -> None:
    """Write texts and arrays to a file, without the time: the same parts give the same file."""
    n_bytes = 0
    for name, part in parts.items():
        if not isinstance(part, str):
            n_bytes += part.nbytes
        elif len(part) > LONGEST_TEXT:  # ASCII
            raise ValueError(
                f"{name} has {len(part):,} characters; at most {LONGEST_TEXT:,} are "
                "saved"
            )
    # What compresses too well would not be read again.
    array_method = ZIP_STORED if n_bytes > _FREE_SIZE // 2 else ZIP_DEFLATED
    lines = []
    with ZipFile(path, "w") as file:
        for name, part in parts.items():
            is_text = isinstance(part, str)
            info = ZipInfo(name)
            info.compress_type = ZIP_DEFLATED if is_text else array_method
            with file.open(info, "w", force_zip64=not is_text) as opened:
                digested = _DigestedFile(opened)
                if isinstance(part, str):
                    digested.write(part.encode())
                else:
                    # With the lowest byte first.
                    little = part.astype(part.dtype.newbyteorder("<"), copy=False)
                    np.lib.format.write_array(digested, little, (1, 0), False)
            lines.append(f"{digested.digest.hexdigest()}  {name}\n")
        if sums:
            info = ZipInfo(SUMS)
            info.compress_type = ZIP_DEFLATED
            file.writestr(info, "".join(lines))


# The first part of each kind of archive, what writes it and what reads it.
_ARCHIVES = {
    "estimator.json": ("skdp.save", "skdp.load"),
    "header.json": ("DPMarginalSynthesizer.save", "DPMarginalSynthesizer.load"),
}

# What is near the beginning of each kind of text.
_TEXTS = {
    '"skdp-protocol"': "the protocol of a fitted transformer, which `load` of its class reads",
    '"skdp_ledger"': "a ledger, which skdp.PrivacyLedger(path) opens",
    '"skdp-ledger"': "the record of a ledger, which skdp.PrivacyLedger.from_json reads",
    '"skdp-guarantee"': "a guarantee, which skdp.PrivacyGuarantee.from_json reads",
}

_BEGINNING = 200


def _opened(file: Any, stack: ExitStack) -> BinaryIO:
    """Open a path, to be closed with the stack; a file stays open."""
    if hasattr(file, "read"):
        return file
    return stack.enter_context(open(file, "rb"))


def what_it_is(file: Any) -> str:
    """Say what a file is, if it is of another kind that skdp writes, as the end of an error."""
    try:
        with ExitStack() as stack:
            opened = _opened(file, stack)
            opened.seek(0)
            beginning = opened.read(_BEGINNING).decode("utf-8", "replace")
            names = ZipFile(opened).namelist() if beginning.startswith("PK") else []
    except DAMAGE:
        return ""
    for header, (writer, reader) in _ARCHIVES.items():
        if header in names:
            return f"; it is what {writer} wrote: use {reader}"
    for mark, name in _TEXTS.items():
        if mark in beginning:
            return f"; it is {name}"
    return ""


class Archive:
    """A file that `write_archive` wrote, or that pretends to be one."""

    def __init__(self, path: Any, header: str) -> None:
        whose = f"this is no file that {_ARCHIVES[header][0]} wrote"
        with ExitStack() as stack:
            opened = _opened(path, stack)
            try:
                self._file = stack.enter_context(ZipFile(opened))
            except DAMAGE:
                raise ValueError(whose + what_it_is(opened)) from None
            kind = "" if header in self.names else what_it_is(opened)
            if kind:
                raise ValueError(whose + kind)
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
            # Without a number, zipfile unpacks more than the stated size.
            return part.read(size + 1).decode()

    def array(self, name: str, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Read an array, if given of a known shape; memory is taken only for what the file really has."""
        size = self._file.getinfo(name).file_size
        with self._file.open(name) as part:
            stated_shape, by_columns, dtype, length = _read_header(part)
            n_bytes = dtype.itemsize * math.prod(stated_shape)
            is_whole = n_bytes == size - length and len(stated_shape) <= _MOST_AXES
            if not is_whole or shape not in (None, stated_shape):
                raise ValueError("an array has another shape")
            data = np.empty(math.prod(stated_shape), dtype)
            raw = data.view(np.uint8)
            end = 0
            # To the end of the part, where its checksum is compared.
            while piece := part.read(_CHUNK):
                start, end = end, end + len(piece)
                raw[start:end] = np.frombuffer(piece, np.uint8)
        if end != raw.size:
            raise ValueError("an array has another shape")
        is_odd_truth = dtype.kind == "b" and (raw > 1).any()
        if is_odd_truth or (dtype.kind == "U" and (raw.view("<u4") > _MOST_CODE).any()):
            raise ValueError("an array holds no values of its type")
        return data.reshape(stated_shape, order="F" if by_columns else "C")

    def check_sums(self) -> None:
        """Check that the parts are those whose digests the file lists."""
        lines = self.text(SUMS).splitlines()
        digests = {}
        for line in lines:
            digest, name = line.split("  ", 1)
            digests[name] = digest
        if len(digests) < len(lines) or digests.keys() != self.names - {SUMS}:
            raise ValueError("it has other parts than it lists")
        for name, digest in digests.items():
            with self._file.open(name) as part:
                unpacked: Any = part
                real_digest = hashlib.file_digest(unpacked, "sha256").hexdigest()
            if real_digest != digest:
                raise ValueError(f"{name} was changed")


def _read_header(part: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the header of an array: its shape, whether its first axis is fastest, its dtype, and the header's bytes."""
    magic = part.read(10)
    if len(magic) == 10 and magic[:8] == b"\x93NUMPY\x01\x00":
        length = int.from_bytes(magic[8:], "little")
        header = _HEADER.fullmatch(part.read(length).decode("latin-1"))
        if header is not None:
            shape = tuple(map(int, re.findall(r"\d+", header[3])))
            return shape, header[2] == "True", np.dtype(header[1]), length + 10
    raise ValueError("an array is of another kind")


def _check_size(file: ZipFile, opened: BinaryIO) -> None:
    """Refuse a file that would unpack to very many times its size, before anything is unpacked."""
    size = opened.seek(0, os.SEEK_END)
    infos = file.infolist()
    unpacked = sum(info.file_size for info in infos)
    if unpacked > max(_FREE_SIZE, _LARGEST_RATIO * size):
        raise ValueError(
            f"the file is too large: it would unpack to {unpacked:,} bytes, "
            f"from {size:,}"
        )
    if len(infos) > _MOST_PARTS or len({info.filename for info in infos}) < len(infos):
        raise ValueError("the file has two parts of one name, or too many")
    for info in infos:
        is_encrypted = info.flag_bits & 1
        if is_encrypted or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ValueError(
                "the file has parts that are encrypted, or compressed in another way"
            )
