"""Chromium for tests, by way of chromedriver's HTTP interface."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import Any

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
)
DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")
MISSING = "" if DRIVER and CHROMIUM else "chromium and chromedriver are not installed"
_START_S = 60


class Browser:
    """One browser with a profile folder of its own. Raises: RuntimeError where it does not start."""

    def __init__(self, folder: Path) -> None:
        assert DRIVER and CHROMIUM
        self._process = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._root = f"http://127.0.0.1:{self._port()}"
        options = {"binary": CHROMIUM, "args": [*OPTIONS, f"--user-data-dir={folder}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _port(self) -> int:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip().rstrip(".").rpartition(" ")[2])
        raise RuntimeError("chromedriver ended")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._root + path, data, {"Content-Type": "application/json"})
        request.method = method
        try:
            with urllib.request.urlopen(request, timeout=_START_S) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def open(self, page: Path) -> None:
        """Load a page and wait until it is ready."""
        self._ask("POST", f"{self._session}/url", {"url": page.as_uri()})
        self.wait("document.getElementById('heddle').dataset.ready")

    def run(self, script: str, *args: Any) -> Any:
        """The value of a function's body, in the page."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(args)})

    def wait(self, condition: str, seconds: float = 60) -> Any:
        """The value of an expression as soon as it is true. Raises: RuntimeError where it stays false."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(f"return {condition}")
            if found:
                return found
            time.sleep(0.05)
        raise RuntimeError(f"{condition} stays false; {self.errors()}")

    def keys(self, text: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._ask(
            "POST",
            f"{self._session}/actions",
            {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]},
        )

    def errors(self) -> list[str]:
        """What the page's console complained of since it was last asked."""
        rows = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [row["message"] for row in rows if row["level"] == "SEVERE"]

    def picture(self, path: Path) -> None:
        """Write what is seen as PNG."""
        path.write_bytes(b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            self._ask("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(timeout=_START_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
