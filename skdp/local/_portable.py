"""Methods of a fitted local transformer that write what others must know to read its reports."""

from __future__ import annotations

from pathlib import Path
from typing import Self, cast

from sklearn.utils.validation import check_is_fitted

from skdp.archive import what_it_is
from skdp.local._protocol_file import FORMAT, WrittenProtocol, read_protocol
from skdp.typing import PathType


class Portable:
    """A transformer that can be written as JSON, without its secrets."""

    _written: WrittenProtocol

    def to_json(self) -> str:
        """Write what a client and a server must agree on: enough to read the reports, and nothing secret.

        Returns
        -------
        str
            Columns, declared values, parameters, exact probabilities and guarantee; not the ledger, the seed, or a
            secret key. Under ``"client"`` is what a client in another language needs (``examples/client``); where there
            is none for these reports, that is null and ``"no_client"`` says why: permanent reports, bins of dates,
            or whole numbers of more than 53 bits, which JavaScript confuses, are such reasons.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if a parameter is of a type that is not saved, or the protocol is larger than `from_json`
            reads: 1,024 columns, 2,097,152 numbers of grids in all columns, or 16,777,216 sums.

        Notes
        -----
        **Privacy.** It follows from what is declared. If `fit` read categories from the data, with a warning, they are
        in it, as they are in every report.
        """
        check_is_fitted(self)
        return self._written.text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make a fitted transformer from what `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON.

        Returns
        -------
        transformer
            Of the class that wrote it, which must be this one, or one of `skdp.local` that is derived from it. It has
            no ledger; if reports are permanent, it has a key of its own, and does not repeat the reports of others.

        Raises
        ------
        ValueError
            If the text is no protocol of such a transformer, beyond the limits below, of another version of skdp that
            draws otherwise, or states another guarantee, or another client, than follow from its parameters.

        Notes
        -----
        **Privacy.** Nothing in the text is run. It may come from an untrusted source: it has at most 2**24 characters
        and 2**19 items (a mapping counts as four), 2**10 columns, 2**17 declared values (2**7 of one hash), whole
        numbers of 1,000 digits, attributes of fewer than 2**24 joint cells, reports of 2**17 columns of bits, whose
        names have 2**23 characters in all, grids of 2**19 numbers in all, and filters of 2**24 bits in all cohorts;
        more is refused before it takes memory or time.
        """
        return cast(Self, read_protocol(text, cls))

    def save(self, path: PathType) -> None:
        """Write `to_json` to a file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        NotFittedError, TypeError
            As `to_json`.
        """
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: PathType) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        transformer
            As of `from_json`.

        Raises
        ------
        ValueError, OSError
            As `from_json`, or if the file cannot be read.
        """
        content = Path(path).read_bytes()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = ""
        if FORMAT not in text and (other := what_it_is(path)):
            raise ValueError(f"the file is no protocol of a local transformer{other}")
        return cls.from_json(text)
