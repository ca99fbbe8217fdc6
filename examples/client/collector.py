"""Collect reports from browsers: an example, without accounts and without transport security.

python examples/client/collector.py protocol.json reports.jsonl

Write `protocol.json` with `encoder.save("protocol.json")`, and open http://127.0.0.1:8000/. The page /estimate shows
the estimates. `skdp tally` adds up the files /tally.json of several collectors.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import pandas as pd

from skdp.local import ReportTransformer

HERE = Path(__file__).parent
KINDS = {
    ".html": "text/html",
    ".mjs": "text/javascript",
    ".json": "application/json",
}


class Collector(BaseHTTPRequestHandler):
    """Serve the page and the protocol, and store valid reports."""

    protocol: Path
    reports: Path
    lock = Lock()

    def do_GET(self):
        pages = {
            "/": HERE / "collect.html",
            "/protocol.json": self.protocol,
        }
        page = (
            pages
            | {
                f"/{name}": HERE / name
                for name in ("skdp.mjs", "check.mjs", "columns.mjs")
            }
        ).get(self.path)
        if page:
            self.answer(200, page.read_bytes(), KINDS[page.suffix])
        elif (
            self.path in ("/estimate", "/tally.json")
            and self.reports.exists()
        ):
            with self.lock:
                rows = [
                    json.loads(line)
                    for line in self.reports.read_text(
                        encoding="utf-8"
                    ).splitlines()
                ]
            transformer = ReportTransformer.load(self.protocol)
            tally = transformer.tally(pd.DataFrame(rows))
            if self.path == "/estimate":
                self.answer(
                    200,
                    transformer.estimate_counts(tally)
                    .round(1)
                    .to_string()
                    .encode(),
                )
            else:
                content = json.loads(tally.to_json()) | {
                    "skdp.protocol": json.loads(transformer.to_json())
                }
                self.answer(
                    200, json.dumps(content).encode(), KINDS[".json"]
                )
        else:
            self.answer(404, b"page not found")

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != "/report" or not 0 < size < 1 << 16:
            return self.answer(400, b"not a report")
        row = self.read_report(self.rfile.read(size))
        if row is None:
            return self.answer(400, b"not a report of this protocol")
        with self.lock, self.reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return self.answer(200, b"received")

    def read_report(self, body):
        """Return the columns of a report that `tally` accepts; None for an invalid report."""
        transformer = ReportTransformer.load(self.protocol)
        try:
            # A list of pairs, because a dict would drop duplicate names.
            pairs = json.loads(body, object_pairs_hook=list)
            values = dict(pairs)
            row = {
                name: values[name]
                for name in transformer.protocol_.report_columns
            }
            transformer.tally(pd.DataFrame([row]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return row if len(values) == len(pairs) else None

    def answer(self, status, body, kind="text/plain; charset=utf-8"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Log nothing, because logs contain the addresses of people."""


if __name__ == "__main__":
    Collector.protocol, Collector.reports = map(Path, sys.argv[1:3])
    ThreadingHTTPServer(("127.0.0.1", 8000), Collector).serve_forever()
