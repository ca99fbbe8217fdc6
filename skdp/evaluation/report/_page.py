"""The page of the report: the template page.html.j2, filled in."""

from __future__ import annotations

import base64
import re
from importlib.resources import files
from typing import Any


def import_jinja2() -> Any:
    """Import jinja2, a dependency of the extra "plot"."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("jinja2 is needed for the report: pip install skdp[plot]") from error
    return jinja2


def render(**content: Any) -> str:
    """Fill in the page."""
    jinja2 = import_jinja2()
    from markupsafe import Markup, escape

    def powers(text: str) -> Any:
        """Escape a text, and set e^ε as a power."""
        return Markup(escape(text).replace("e^ε", Markup("e<sup>ε</sup>")))

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "anchor": lambda text: re.sub(r"\W+", "-", text.lower()).strip("-"),
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "powers": powers,
        "title_case": lambda text: text[0].upper() + text[1:],
    }
    template = files("skdp.evaluation.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return str(environment.from_string(template).render(content))
