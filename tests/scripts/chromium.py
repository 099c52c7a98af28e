"""Chromium with its driver, for tests of pages; neither is ever fetched."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--force-prefers-reduced-motion --window-size=1280,1000"
)

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver on this machine"
)


def start_browser(folder: Path, *more_options: str) -> Any:
    """Start a browser whose own files are in `folder`; the caller quits it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS.split(), *more_options):
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(PATIENCE_S)
    return browser


def requested_addresses(browser: Any, page: str) -> set[str]:
    """Return what the page at this address has requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = set()
    for request in requests:
        # Only those of the page: the browser has start pages too, and may report them late.
        if request["documentURL"].partition("#")[0] == page:
            urls.add(request["request"]["url"].partition("#")[0])
    # These are in memory: what a page made, and the browser's own pictures of a player's buttons.
    return {url for url in urls if not url.startswith(("blob:", "data:"))}


def one(page: Any, selector: str) -> Any:
    """Return the first element of a page, or below an element, that a CSS selector names."""
    return page.find_element("css selector", selector)


def every(page: Any, selector: str) -> list[Any]:
    return page.find_elements("css selector", selector)


def wait_for_drawing(browser: Any) -> None:
    """Wait until drawings have their width, which is before the second frame."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
    )
