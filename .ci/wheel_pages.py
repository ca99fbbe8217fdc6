"""Build hook: write the pages that warnings link to into the wheel, as HTML without scripts."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDERS = ("answers", "guide", "jobs")
STYLE = (
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem; }"
    "pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; }"
    "table { border-collapse: collapse; display: block; overflow-x: auto; }"
    "th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: left; }"
)


def get_build_hook() -> Any:
    """Return the hook that hatchling calls for a wheel."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class WheelPages(BuildHookInterface):  # type: ignore[misc, type-arg]
        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                return
            self.folder = TemporaryDirectory()
            for page in list_pages():
                path = Path(self.folder.name, page.replace("/", "_"))
                path.write_text(render(page), encoding="utf-8")
                build_data["force_include"][str(path)] = f"skdp/docs/{page}.html"

        def finalize(
            self, version: str, build_data: dict[str, Any], artifact_path: str
        ) -> None:
            if version != "editable":
                self.folder.cleanup()

    return WheelPages


def list_pages() -> list[str]:
    """List the pages of the wheel, such as "guide/tables"."""
    paths = [path for folder in FOLDERS for path in (DOCS / folder).glob("*.md")]
    return sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in paths)


def render(page: str) -> str:
    """Render a page as HTML, without pictures, lists of pages and entries of the index."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.anchors import anchors_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"^```\{.*?^```$\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.DOTALL)
    text = re.sub(
        r"\[([^]]*)\]\(((?!https?:|#)[^)\s]+)\)", lambda x: _link(x, page), text
    )
    parser = MarkdownIt().enable("table").use(anchors_plugin, max_level=3)
    body = parser.use(deflist_plugin).use(dollarmath_plugin).render(text)
    title = _read_title(page)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _link(found: re.Match[str], page: str) -> str:
    """Return a link to a page of the wheel, or its label if the wheel does not have the page."""
    label, target = found[1], found[2]
    path, _, section = target.partition("#")
    file = (DOCS / page).parent.joinpath(path).resolve()
    name = file.relative_to(DOCS.parent).with_suffix("").as_posix()
    name = name.removeprefix("docs/")
    if name not in list_pages():
        return label
    up = "" if name.partition("/")[0] == page.partition("/")[0] else "../"
    short = name.partition("/")[2] if not up else name
    return f"[{label}]({up}{short}.html{'#' * bool(section)}{section})"


def _read_title(page: str) -> str:
    """Return the heading of a page."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(r"^# (.*)$", text, re.MULTILINE)
    return found[1] if found else page
