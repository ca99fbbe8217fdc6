"""Check that all pages of the built book are XML, as readers of EPUB files require, and that their pictures are in it.

python docs/check_book.py site/epub/skdp.epub
"""

from __future__ import annotations

import posixpath
import sys
import zipfile
from xml.etree import ElementTree


def main() -> int:
    """Print each fault of a page, and return the number of faults."""
    n_faults = 0
    with zipfile.ZipFile(sys.argv[1]) as book:
        names = set(book.namelist())
        for page in sorted(names):
            if not page.endswith((".xhtml", ".opf", ".ncx")):
                continue
            try:
                elements = list(
                    ElementTree.fromstring(book.read(page)).iter()
                )
            except ElementTree.ParseError as error:
                print(f"{page}: {error}")
                n_faults += 1
                continue
            for source in (
                element.get("src", "data:") for element in elements
            ):
                path = posixpath.join(posixpath.dirname(page), source)
                if (
                    ":" not in source
                    and posixpath.normpath(path) not in names
                ):
                    print(f"{page}: there is no {source}")
                    n_faults += 1
    return min(n_faults, 1)


if __name__ == "__main__":
    sys.exit(main())
