"""Which of skdp's kinds of files a text is, for errors that name its reader.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

# What is near the beginning of each kind of text.
_FORMATS = {
    b'"skdp-estimator"': "what skdp.save wrote, which skdp.load reads",
    b'"skdp-protocol"': "the protocol of a fitted transformer, which `load` of its class"
    " reads",
    b"SQLite format 3": "a ledger, which skdp.PrivacyLedger(path=...) opens",
    b'"skdp-ledger"': "the record of a ledger, which skdp.PrivacyLedger.from_json reads",
    b'"skdp-guarantee"': "a guarantee, which skdp.PrivacyGuarantee.from_json reads",
}

_BEGINNING = 200


def what_it_is(data: bytes) -> str:
    """Say what a file is, if skdp writes such files, as the end of an error."""
    beginning = data[:_BEGINNING]
    for mark, name in _FORMATS.items():
        if mark in beginning:
            return f"; it is {name}"
    return ""
