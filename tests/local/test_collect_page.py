"""The page of the example client, in a browser: nothing is chosen for a person, and nothing is sent before that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest

from skdp import Interval, RandomizedResponseEncoder

CLIENT = Path(__file__).parent.parent.parent / "examples" / "client"
DECLARED = {
    "sex": ["f", "m"],
    "children": list(range(12)),
    "smokes": ["yes", "no", None],
    "hours": Interval(0, 80, bins=8, missing=True),
}
ROW = pd.DataFrame({"sex": ["f"], "children": [1], "smokes": ["no"], "hours": [40.0]})
VISITOR = """<iframe id="page" src="/" width="600" height="900"></iframe><pre id="seen"></pre>
<script>
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const page = document.getElementById("page");
  const seen = {};
  const visit = async () => {
    while (!page.contentDocument?.querySelector("form button")) await wait(50);
    const inside = page.contentDocument;
    const [form, sent] = [inside.getElementById("form"), inside.getElementById("sent")];
    const [button, list, number] = ["button", "select", "input[type=number]"].map((name) => form.querySelector(name));
    seen.chosen = form.querySelectorAll("input:checked").length + list.value + number.value;
    button.click();
    await wait(200);
    seen.sentWithoutAnswers = sent.textContent;
    form.querySelector("input[type=radio]").click();
    [...form.querySelectorAll("input[type=radio]")].at(-1).click();
    list.value = "3";
    seen.isValid = [form.checkValidity()];
    for (const text of ["99", "39.5"]) {
      number.value = text;
      seen.isValid.push(form.checkValidity());
    }
    button.click();
    while (!sent.textContent.includes("received")) await wait(50);
    seen.report = JSON.parse(sent.textContent.split("\\n")[0]);
  };
  visit().finally(() => (document.getElementById("seen").textContent = JSON.stringify(seen)));
</script>"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_no_answer_is_chosen_for_a_person(tmp_path):
    namespace = {"__name__": "collector", "__file__": str(CLIENT / "collector.py")}
    exec(compile((CLIENT / "collector.py").read_text(), "collector.py", "exec"), namespace)

    class Collector(namespace["Collector"]):
        protocol, reports = tmp_path / "protocol.json", tmp_path / "reports.jsonl"

        def do_GET(self):
            if self.path == "/visitor":
                self.answer(200, VISITOR.encode(), "text/html")
            else:
                super().do_GET()

    encoder = RandomizedResponseEncoder(3.0, categories=DECLARED).fit(ROW)
    encoder.save(Collector.protocol)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=9000",
    ]
    command = ["chromium", *options, "--dump-dom", f"http://127.0.0.1:{server.server_port}/visitor"]
    try:
        dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    finally:
        server.shutdown()
        server.server_close()
    seen = json.loads(re.search(r'<pre id="seen">(.*)</pre>', dom)[1])
    assert seen["chosen"] == "0"
    assert seen["sentWithoutAnswers"] == "nothing yet"
    assert seen["isValid"] == [
        False,
        False,
        True,
    ]  # without a number, with one outside of all bins, and with one inside
    assert [json.loads(line) for line in Collector.reports.read_text().splitlines()] == [seen["report"]]
    assert encoder.tally(pd.DataFrame([seen["report"]])).n_reports == 1
