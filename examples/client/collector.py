"""Collect reports from browsers: an example, without accounts and without transport security.

python examples/client/collector.py protocol.json reports.jsonl

`protocol.json` is what `encoder.save("protocol.json")` wrote. Then open http://127.0.0.1:8000/; the estimates are at
/estimate, and what to add to the reports of other collectors at /tally.json. A line of `reports.jsonl` is one report:

skdp tally reports.jsonl --protocol protocol.json --out tally.json
skdp tally tally.json another.json --out sum.json
skdp estimate sum.json
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import pandas as pd

from skdp.engines import estimate_file, tally_files
from skdp.local import ReportTransformer

HERE = Path(__file__).parent
PAGES = {"/": ("collect.html", "text/html"), "/skdp.mjs": ("skdp.mjs", "text/javascript")}
MOST_BYTES = 1 << 16


class Collector(BaseHTTPRequestHandler):
    """Serves the page and the protocol, and keeps the reports that fit it."""

    protocol: Path
    reports: Path
    lock = Lock()

    def do_GET(self):
        if self.path in PAGES:
            name, kind = PAGES[self.path]
            self.answer(200, kind, (HERE / name).read_bytes())
        elif self.path == "/protocol.json":
            self.answer(200, "application/json", self.protocol.read_bytes())
        elif self.path in ("/estimate", "/tally.json") and self.reports.exists():
            with TemporaryDirectory() as folder, self.lock:
                tally = Path(folder, "tally.json")
                tally_files(self.reports, ReportTransformer.load(self.protocol), target=tally)
                if self.path == "/tally.json":
                    return self.answer(200, "application/json", tally.read_bytes())
                table = estimate_file(tally).round(1).to_string()
            self.answer(200, "text/plain; charset=utf-8", table.encode())
        else:
            self.answer(404, "text/plain", b"there is nothing here")

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != "/report" or not 0 < size <= MOST_BYTES:
            return self.answer(400, "text/plain", b"not a report")
        try:
            row = json.loads(self.rfile.read(size))
            ReportTransformer.load(self.protocol).tally(pd.DataFrame([row]))  # refuses what is no report
        except (ValueError, TypeError):
            return self.answer(400, "text/plain", b"not a report of this protocol")
        with self.lock, self.reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return self.answer(200, "text/plain", b"received")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Log nothing: addresses of people would be in it."""


if __name__ == "__main__":
    Collector.protocol, Collector.reports = map(Path, sys.argv[1:3])
    ThreadingHTTPServer(("127.0.0.1", 8000), Collector).serve_forever()
