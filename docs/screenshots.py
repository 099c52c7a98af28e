"""Make the pictures of the report, of the service's page and of windows that the documents show.

python docs/screenshots.py RUN_FOLDER NETWORK.pt RECORDING CASE.html [AUDIT.html]

The run's report is shown at its last set; the network should be calibrated, and the recording have
a spoofed part. Chromium and its driver take the pictures.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

DOCS = Path(__file__).parent
PORT = 8790
# A wide page of a desktop, at one pixel per pixel.
REPORT_SIZE = (1240, 1400)
PAGE_SIZE = (760, 1250)
PATIENCE_S = 120


def main(run: Path, network: Path, recording: Path, case: Path, audit: Path | None = None) -> None:
    """Write report.png, page.png, case.png, windows.svg and, of an audit's page, audit.png here."""
    with tempfile.TemporaryDirectory() as folder:
        browser = start_browser(Path(folder))
        try:
            take_report(browser, run / "results" / "report.html")
            take_page(browser, network, recording)
            take_top(browser, case, PAGE_SIZE, "case.png")
            if audit is not None:
                take_top(browser, audit, REPORT_SIZE, "audit.png")
        finally:
            browser.quit()
        take_windows(Path(folder), network, recording)


def start_browser(folder: Path) -> Any:
    """Start Chromium with files of its own in `folder`."""
    options = webdriver.ChromeOptions()
    for option in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--force-prefers-reduced-motion",
        "--hide-scrollbars",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(option)
    options.binary_location = str(shutil.which("chromium") or shutil.which("google-chrome"))
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def take_report(browser: Any, report: Path) -> None:
    """Take the part of a report that shows its last set."""
    browser.set_window_size(*REPORT_SIZE)
    browser.get(report.resolve().as_uri())
    part = browser.find_elements(By.CSS_SELECTOR, "section[id^='set-']")[-1]
    browser.execute_script("arguments[0].scrollIntoView()", part)
    part.screenshot(str(DOCS / "report.png"))


def take_top(browser: Any, page: Path, size: tuple[int, int], picture: str) -> None:
    """Take the upper part of the page of a case or an audit."""
    browser.set_window_size(*size)
    browser.get(page.resolve().as_uri())
    browser.save_screenshot(str(DOCS / picture))


def take_page(browser: Any, network: Path, recording: Path) -> None:
    """Take the service's page with a result on it."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", str(PORT)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{PORT}"
        wait_for(f"{address}/health")
        browser.set_window_size(*PAGE_SIZE)
        browser.get(address)
        browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(
            str(recording.resolve())
        )
        result = "svg[role=img]"
        WebDriverWait(browser, PATIENCE_S).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, result)
        )
        browser.save_screenshot(str(DOCS / "page.png"))
    finally:
        service.terminate()
        service.wait()


def take_windows(folder: Path, network: Path, recording: Path) -> None:
    """Write the picture of the scores over time."""
    table = folder / "call.csv"
    command = [sys.executable, "-m", "asdf", "score", str(network.resolve()), recording.name]
    # The picture's title is the path as it was given: its name alone.
    options = ["--window", "2", "--hop", "1", "--csv", str(table)]
    subprocess.run([*command, *options], check=True, cwd=recording.parent)
    (picture,) = folder.glob("call - *.svg")
    shutil.copyfile(picture, DOCS / "windows.svg")


def wait_for(address: str) -> None:
    """Wait until the service answers."""
    for _ in range(PATIENCE_S):
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            time.sleep(1)
    raise TimeoutError(address)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:6]))
