"""Check the built site: links within it, alternative texts, and the way from the map to each public object.

python docs/check_site.py site/html
"""

from __future__ import annotations

import sys
import tomllib
from html.parser import HTMLParser
from os.path import normpath, relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

CLICKS = 3
GROUPS = Path(__file__).parent / "api" / "groups.toml"


class Page(HTMLParser):
    """The links, anchors and images of a page; `article` has the links outside of menus."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.article: list[str] = []
        self.anchors: set[str] = set()
        self.faults: list[str] = []
        self._in_article = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        """Note what a tag links to."""
        given = dict(attrs)
        self.anchors.update(
            value for name in ("id", "name") if (value := given.get(name))
        )
        if tag == "article":
            self._in_article = True
        link = (
            given.get("href")
            if tag in ("a", "link")
            else given.get("src")
            if tag in ("img", "script")
            else None
        )
        if link:
            self.links.append(link)
            if tag == "a" and self._in_article:
                self.article.append(link)
        if tag == "img" and "alt" not in given:
            self.faults.append(
                f"an image without alternative text: {given.get('src')}"
            )
        if (
            link
            and tag in ("img", "script", "link")
            and urlsplit(link).netloc
        ):
            self.faults.append(f"is fetched from elsewhere: {link}")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of the article."""
        if tag == "article":
            self._in_article = False


def target_of(page: str, link: str) -> tuple[str, str] | None:
    """Return the file within the site and the anchor that a link leads to, None if it leads elsewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = (
        normpath(Path(page).parent / unquote(parts.path))
        if parts.path
        else page
    )
    return path, unquote(parts.fragment)


def link_faults(site: Path, pages: dict[str, Page]) -> list[str]:
    """Return links that lead nowhere."""
    faults = []
    for name, page in pages.items():
        for link in page.links:
            target = target_of(name, link)
            if target is None:
                continue
            path, anchor = target
            if not (site / path).is_file():
                faults.append(f"{name}: no file {link}")
            elif (
                anchor
                and path in pages
                and anchor not in pages[path].anchors
            ):
                faults.append(f"{name}: no anchor {link}")
    return faults


def clicks_from(start: str, pages: dict[str, Page]) -> dict[str, int]:
    """Return the least number of clicks from a page to each other one, without menus."""
    clicks, edge = {start: 0}, [start]
    while edge:
        following = []
        for name in edge:
            targets = (
                target_of(name, link) for link in pages[name].article
            )
            for path in {
                target[0] for target in targets if target
            } - clicks.keys():
                if path in pages:
                    clicks[path] = clicks[name] + 1
                    following.append(path)
        edge = following
    return clicks


def main(folder: str) -> int:
    """Print what is wrong, and return its number."""
    site = Path(folder)
    pages = {
        relpath(path, site): Page(path)
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    faults = link_faults(site, pages)
    faults += [
        f"{name}: {fault}"
        for name, page in pages.items()
        for fault in page.faults
    ]
    clicks = clicks_from("choose.html", pages)
    objects = [
        name
        for group in tomllib.loads(GROUPS.read_text(encoding="utf-8"))[
            "group"
        ]
        for name in group["objects"]
    ]
    for name in objects:
        number = clicks.get(f"api/generated/{name}.html")
        if number is None or number > CLICKS:
            faults.append(
                f"{name} is {number or 'not reached: no'} clicks from the map, and not {CLICKS}"
            )
    links = sum(len(page.links) for page in pages.values())
    print(
        "\n".join(faults)
        or f"{len(pages)} pages, {links} links, {len(objects)} objects: no fault"
    )
    return len(faults)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1])))
