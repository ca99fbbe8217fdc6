"""Collect reports from browsers: an example, without accounts and without transport security.

python examples/client/collector.py protocol.json reports.jsonl

`protocol.json` is what `encoder.save("protocol.json")` wrote. Then open http://127.0.0.1:8000/. The estimates are at
/estimate; /tally.json is for `skdp tally`, which adds up those of many collectors, as it does files of reports.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from skdp.engines import estimate_file, tally_files
from skdp.local import ReportTransformer

HERE = Path(__file__).parent
KINDS = {".html": "text/html", ".mjs": "text/javascript", ".json": "application/json"}


class Collector(BaseHTTPRequestHandler):
    """Serves the page and the protocol, and keeps the reports that fit it."""

    protocol: Path
    reports: Path
    lock = Lock()

    def do_GET(self):
        pages = {"/": HERE / "collect.html", "/protocol.json": self.protocol}
        page = (pages | {f"/{name}": HERE / name for name in ("skdp.mjs", "check.mjs", "columns.mjs")}).get(self.path)
        if page:
            self.answer(200, page.read_bytes(), KINDS[page.suffix])
        elif self.path in ("/estimate", "/tally.json") and self.reports.exists():
            with TemporaryDirectory() as folder, self.lock:
                tally_files(self.reports, ReportTransformer.load(self.protocol), target=Path(folder, "tally.json"))
                tally, table = Path(folder, "tally.json").read_bytes(), estimate_file(Path(folder, "tally.json"))
            text = table.round(1).to_string().encode()
            self.answer(200, *((tally, KINDS[".json"]) if self.path == "/tally.json" else (text,)))
        else:
            self.answer(404, b"there is nothing here")

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != "/report" or not 0 < size < 1 << 16:
            return self.answer(400, b"not a report")
        with TemporaryDirectory() as folder, self.lock:
            line = Path(folder, "report.jsonl")
            line.write_bytes(self.rfile.read(size).strip() + b"\n")
            try:  # what is kept is what `tally_files` reads
                one = tally_files(line, ReportTransformer.load(self.protocol)).n_reports == 1
            except ValueError:
                one = False
            if one:
                with self.reports.open("ab") as file:
                    file.write(line.read_bytes())
        return self.answer(200, b"received") if one else self.answer(400, b"not a report of this protocol")

    def answer(self, status, body, kind="text/plain; charset=utf-8"):
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
