"""Links from the name of a public object, in text and in code blocks, to its page, and a list of all names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

API = Path(__file__).parent.parent / "api"
_ENTRY = re.compile(r"^   (skdp\.[\w.]+)$", re.MULTILINE)
OBJECTS = {
    entry.rpartition(".")[2]: entry
    for page in sorted(API.glob("*.rst"))
    for entry in _ENTRY.findall(page.read_text(encoding="utf-8"))
}
_LINK_OR_TITLE = r"<a\b.*?</a>|<h\d\b.*?</h\d>|<dt\b.*?</dt>"
_LITERAL = r'<code class="docutils literal notranslate">.*?</code>'
_BLOCK = r'<div class="(?:sphx-glr-script-out )?highlight-\w+ notranslate">.*?</pre>'
_PARTS = re.compile(f"{_LINK_OR_TITLE}|{_LITERAL}|{_BLOCK}", re.DOTALL)
_NAME_IN_LITERAL = re.compile(
    r'(<span class="pre">)((?:skdp\.)?(?:\w+\.)*(\w+))(?=[(<])'
)
# In code of the gallery, a line ends within a span.
_END_IN_SPAN = re.compile(r'<span class="w">(\s*\n\s*)</span>')
# A name that is not the content of a link.
_NAME_IN_BLOCK = re.compile(
    r'(?<!class="o">\.</span>)(?<!">)<span class="n(?:c|n)?">(\w+)</span>'
    r'(?!\s*<span class="o">=)'
)
# A long line of output without columns, such as a guarantee.
_SENTENCE = re.compile(
    r"(?:^|(?<=<span></span>))((?!.*  )[^<\n]{40,})$", re.MULTILINE
)
# A line of code that has all parts of its spans; on narrow screens, it continues with an indent.
_LINE = re.compile(
    r"^((?:<span></span>)?)( *)((?:<(\w+)[^>]*>(?:(?!</?\4)[^\n])*</\4>|[^<\n])+)$",
    re.MULTILINE,
)
# Where a line of code may break on a narrow screen: after a dot, a bracket or a comma.
_BREAK = re.compile(r'(<span class="[op]">(?:\.|=|[(\[{]+|[^<]*,)</span>)')
_IMAGE = re.compile(r'<img [^>]*class = "sphx-glr-single-img"/>')
# Between the words of an identifier, where a narrow screen may break it.
_HUMP = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=_)(?=\w)|(?<=[a-z]\.)(?=[A-Za-z])"
)
_WORDS = re.compile(r'(?<=<span class="pre">)[^<]+|(?<=<h1>)[^<]+')


def _link(app: Any, page: str, name: str, text: str) -> str:
    """Return a link from `page` to the object `name`, whose text may break between words."""
    entry = OBJECTS[name]
    uri = app.builder.get_relative_uri(page, f"api/generated/{entry}")
    return f'<a class="reference internal skdp-name" href="{uri}#{entry}">{text}</a>'


def _link_names(
    app: Any,
    page: str,
    _template: str,
    context: dict[str, Any],
    _tree: Any,
) -> None:
    """Replace the names of public objects in the body of a page by links."""
    if "body" not in context:
        return
    own = page.rpartition(".")[2]

    def indent(match: re.Match[str]) -> str:
        start, spaces, code, _ = match.groups()
        style = f"--indent: {min(len(spaces), 8) + 4}ch"
        space = (
            f'<span class="skdp-space">{spaces}</span>' if spaces else ""
        )
        return f'{start}<span class="skdp-line" style="{style}">{space}{code}</span>'

    def in_literal(match: re.Match[str]) -> str:
        start, text, name = match.groups()
        is_ours = text in (name, f"skdp.{name}", OBJECTS.get(name))
        if not is_ours or name not in OBJECTS or name == own:
            return match[0]
        link = _link(app, page, name, _HUMP.sub("<wbr/>", text))
        return f"{start}{link}"

    def replace(match: re.Match[str]) -> str:
        part = match[0]
        if part.startswith("<code"):
            part = _NAME_IN_LITERAL.sub(in_literal, part, count=1)
        if part.startswith(("<code", "<h1")):
            return _WORDS.sub(lambda x: _HUMP.sub("<wbr/>", x[0]), part)
        if not part.startswith("<div"):
            return part
        if re.match(r"<div [^>]*highlight-(text|none)", part):
            return _SENTENCE.sub(r'<span class="wrap">\1</span>', part)
        part = _END_IN_SPAN.sub(r"\1", part)
        imported = {
            name
            for names in re.findall(
                r">import</span>(.*?)(?:\n[^ ]|</pre>)", part, re.DOTALL
            )
            for name in re.findall(r'class="n">(\w+)<', names)
        }

        def in_block(match: re.Match[str]) -> str:
            name = match[1]
            is_ours = name[0].isupper() or name in imported
            if not is_ours or name not in OBJECTS or name == own:
                return match[0]
            return _link(app, page, name, match[0])

        head, code = _NAME_IN_BLOCK.sub(in_block, part).split("<pre>")
        lines = _BREAK.sub(r"\1<wbr/>", _LINE.sub(indent, code))
        return f"{head}<pre>{lines}"

    body = context["body"].replace(
        "<style scoped>", "<style>"
    )  # of pandas; a book must be XML
    body = _IMAGE.sub(r'<div class="skdp-scroll">\g<0></div>', body)
    context["body"] = _PARTS.sub(replace, body)


def _list_names(_app: Any, docname: str, source: list[str]) -> None:
    """Add a table of the names on each page of the API to its index."""
    if docname != "api/index":
        return
    for page in re.findall(r"^   (\w+)$", source[0], re.MULTILINE):
        text = (API / f"{page}.rst").read_text(encoding="utf-8")
        title = text.partition("\n")[0]
        names = "\n".join(
            f"   {'~' if name.count('.') == 1 else ''}{name}"
            for name in _ENTRY.findall(text)
        )
        source[0] += (
            f"\n\n{title}\n{'-' * len(title)}\n\nBy task, with notes: :doc:`{page}`.\n\n"
            f".. autosummary::\n   :nosignatures:\n\n{names}\n"
        )


def setup(app: Any) -> dict[str, bool]:
    """Connect the handlers."""
    app.connect("source-read", _list_names)
    app.connect("html-page-context", _link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
