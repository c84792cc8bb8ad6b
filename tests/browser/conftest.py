"""A real server and a real Chromium; without a browser the tests skip, or fail where one is required."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HELP = "no Chromium found: apt-get install chromium, or .venv/bin/playwright install chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 120_000  # milliseconds for the slowest page on a busy machine; a passing test does not wait


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One ``streamlit run app.py`` in its own process."""

    def __init__(self, log: Path):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        options = ["--server.port", str(self.port), "--server.address", "127.0.0.1", "--server.headless", "true"]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app.py", *options],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server stopped: {self.log.read_text()[-2000:]}")
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)  # polling a socket that is not open yet; nothing to wait on
        raise RuntimeError("the server did not answer within two minutes")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium where it is installed, else Playwright's own."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as engine:
        path = shutil.which("chromium") or shutil.which("chromium-browser") or engine.chromium.executable_path
        if not Path(path).exists():
            if os.environ.get("REQUIRE_BROWSER"):
                pytest.fail(HELP)
            pytest.skip(HELP)
        instance = engine.chromium.launch(executable_path=path, args=FLAGS)
        yield instance
        instance.close()


@pytest.fixture(scope="session")
def server(browser, tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("server") / "log.txt")
    yield running
    running.stop()


@pytest.fixture
def page(browser, server):
    """A fresh window on the shared server that must stay on this machine and show no error."""
    window = browser.new_page(viewport={"width": 1280, "height": 720})
    window.set_default_timeout(PATIENCE)
    elsewhere = []
    window.on(
        "request",
        lambda request: (
            None
            if "127.0.0.1" in request.url or request.url.startswith(("data:", "blob:"))
            else elsewhere.append(request.url)
        ),
    )
    yield window
    window.close()
    assert not elsewhere, "a request left this machine"
