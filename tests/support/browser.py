"""A headless Chromium, where there is one: pages are opened at some widths, probed by a script, and photographed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


def chromium() -> str:
    """The browser; the test is skipped where there is none."""
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip("no Chromium here: apt-get install chromium, or put chrome on the PATH")


def run(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Opens a page without a window."""
    command = [
        chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files",
        "--virtual-time-budget=4000", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def console(folder: Path, page: Path) -> list[str]:
    """What a page writes to the console, errors among it."""
    done = run(folder, page, "--dump-dom")
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def probed(folder: Path, html: str, script: str, width: int, height: int = 900) -> Any:
    """What a function of JavaScript gives in a page of some width: `script` is its body."""
    framed, outer = folder / f"framed-{width}.html", folder / f"outer-{width}.html"
    probe = (
        "<script>addEventListener('load', () => setTimeout(() => parent.postMessage("
        f"JSON.stringify((() => {{{script}}})()), '*'), 300));</script></body>"
    )
    framed.write_text(POLICY.sub("", html).replace("</body>", probe), encoding="utf-8")
    outer.write_text(
        "<!doctype html><body><script>addEventListener('message', (event) => {"
        "const told = document.createElement('pre'); told.id = 'told'; told.textContent = event.data;"
        "document.body.append(told); });</script>"
        f'<iframe src="{escape(framed.name)}" width="{width}" height="{height}"></iframe></body>',
        encoding="utf-8",
    )
    done = run(folder, outer, "--dump-dom", f"--window-size={max(600, width + 50)},{height + 50}")
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None, done.stderr[-2000:]
    return json.loads(unescape(told[1]))


def visited(folder: Path, pages: list[Path], script: str, width: int) -> dict[str, Any]:
    """What a function of JavaScript gives in the document `d` of each page of a site, at some width."""
    addresses = json.dumps({str(page): page.as_uri() for page in pages})
    outer = folder / f"visits-{width}.html"
    outer.write_text(
        f'<!doctype html><body><iframe id="page" width="{width}" height="900"></iframe><script>(async () => {{'
        "const frame = document.getElementById('page'), told = {};"
        f"for (const [name, address] of Object.entries({addresses})) {{"
        "await new Promise((done) => { frame.onload = done; frame.src = address; });"
        "await new Promise((done) => setTimeout(done, 100));"
        f"told[name] = ((d) => {{{script}}})(frame.contentDocument); }}"
        "const box = document.createElement('pre'); box.id = 'told'; box.textContent = JSON.stringify(told);"
        "document.body.append(box); })();</script></body>",
        encoding="utf-8",
    )
    size = f"--window-size={max(600, width + 50)},950"
    done = run(folder, outer, "--dump-dom", "--disable-web-security", "--virtual-time-budget=60000", size)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(unescape(told[1]))
    return found


def photographed(folder: Path, page: Path, image: Path, width: int, height: int) -> bytes:
    """A picture of a page, as PNG."""
    done = run(folder, page, f"--screenshot={image}", f"--window-size={width},{height}")
    assert image.exists(), done.stderr[-2000:]
    return image.read_bytes()
