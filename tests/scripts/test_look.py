"""One look of all pages: the verdict first, no wider than a phone, light and dark, and on paper."""

import base64

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.report.drawing import page_colours
from asdf.tables.panels import nice_ticks, time_axis
from asdf.text import clock
from tests.extras.forensic.case.test_command import CALIBRATION
from tests.extras.service.conftest import network, running
from tests.scripts.chromium import every, needs_chromium, one, wait_for_drawing
from tests.scripts.test_service_page import (
    choose,
    find,
    plain_detector,
    wait_for_result,
    wait_until,
)
from tests.unit.conftest import small_settings, sound, write_small_network
from tests.unit.report.folders import make_run

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = needs_chromium
__all__ = ["network"]

PAGES = ("report", "case", "cases", "service", "docs")
SECONDS = 40
HEADING = "return document.querySelector('h1, h2, h3').textContent"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("look")


@pytest.fixture(scope="module")
def call(folder):
    path = folder / "call.wav"
    soundfile.write(path, sound(SECONDS * 16000), 16000)
    # What a case examines takes long.
    soundfile.write(folder / "short.wav", sound(3 * 16000), 16000)
    return path


@pytest.fixture(scope="module")
def pages(folder, call, network):
    """The address of each page; on the service's nothing is scored."""
    runs = [str(make_run(folder / name, shift=shift)) for name, shift in (("one", 2), ("two", 4))]
    assert main(["report", *runs, "-o", str(folder / "report.html"), "--replicates", "20"]) == 0
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    net = write_small_network(folder / "net.pt", settings, calibration=CALIBRATION.content())
    short = folder / "short.wav"
    for name, words in (("case", [short]), ("cases", [short, folder / "report.html"])):
        options = ["--speech-check", "off", "-o", str(folder / f"{name}.html")]
        main(["case", *map(str, (net, *words)), *options])
    addresses = {name: (folder / f"{name}.html").as_uri() for name in ("report", "case", "cases")}
    with running(plain_detector(network, threshold=0.0)) as service:
        service.wait_until_ready()
        yield addresses | {"service": f"{service.url}/", "docs": f"{service.url}/docs"}


@pytest.fixture
def picture(browser, pages, call):
    """The service's page with a recording."""
    browser.get(pages["service"])
    choose(browser, call)
    wait_for_result(browser)
    return browser


def set_width(browser, width, **more):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False, **more}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def set_scheme(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def test_the_verdict_is_the_first_heading(browser, pages, call):
    browser.get(pages["report"])
    eer = one(browser, "#results tbody .best:last-child")
    percent = eer.get_attribute("data-value")
    heading = browser.execute_script(HEADING)
    assert heading.startswith(f"On eval, two (epoch.2) has an EER of {float(percent):.2f}\u00a0%")
    browser.get(pages["case"])
    assert "as likely if the recording is" in browser.execute_script(HEADING)
    browser.get(pages["cases"])
    assert browser.execute_script(HEADING).startswith("2 recordings: 1 ")
    assert browser.execute_script(HEADING).endswith(", 1 not judged.")
    browser.get(pages["service"])
    assert browser.execute_script(HEADING) == "Is this voice genuine?"
    choose(browser, call)
    wait_for_result(browser)
    assert "ound" in browser.execute_script(HEADING)
    for name in ("report", "case", "service"):
        if name != "service":
            browser.get(pages[name])
        shown = browser.execute_script(
            "return [...document.querySelectorAll('h1, .facts dt, .cannot')]"
            ".map((e) => [e.textContent, e.getBoundingClientRect().top])"
        )
        names = [text for text, _ in shown]
        assert any("hreshold" in text for text in names), names
        assert shown[-1][0].startswith("What this cannot tell.")
        # Read before anything else: within the first screen.
        assert max(top for _, top in shown) < 700


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_screens_and_paper_in_the_colours_of_the_style(browser, pages, call, name):
    browser.get(pages[name])
    if name == "service":
        choose(browser, call)
        wait_for_result(browser)
    try:
        check_focus(browser)
        for width in (320, 375, 1280):
            check_width(browser, width)
        for column, scheme in enumerate(("light", "dark")):
            check_colours(browser, scheme, column)
        check_paper(browser)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def check_focus(browser):
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB, Keys.TAB)
    focus = "const style = getComputedStyle(document.activeElement);"
    outlines = f"{focus} return [style.outlineStyle, parseFloat(style.outlineWidth)]"
    style, width = browser.execute_script(outlines)
    assert (style, width >= 2) == ("solid", True)


def check_width(browser, width):
    """Nothing is wider than the screen, and the buttons are large enough for a thumb."""
    set_width(browser, width)
    wait_for_drawing(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ways = every(browser, "#record, .ways .button")
    assert all(way.size["height"] >= 44 for way in ways)
    right = (
        "return [...document.querySelectorAll('svg[role=img]')]"
        ".map((each) => each.getBoundingClientRect().right)"
    )
    assert max(browser.execute_script(right), default=0) <= width


def check_colours(browser, scheme, column):
    set_scheme(browser, scheme)
    shown = browser.execute_script(
        "const of = (e, name) => getComputedStyle(e)[name];"
        "const first = (selector) => document.querySelector(selector);"
        "const line = first('.line.c0'), soft = first('.note, caption');"
        "return [of(document.body, 'backgroundColor'), of(document.body, 'color'),"
        " of(soft, 'color'), line && of(line, 'stroke')]"
    )
    names = ("page", "text", "soft", "c0")
    for name, colour in zip(names, shown, strict=True):
        code = page_colours()[name][column]
        values = [int(code[at : at + 2], 16) for at in (1, 3, 5)]
        assert colour in (None, f"rgb({values[0]}, {values[1]}, {values[2]})"), name


def check_paper(browser):
    """No picture is cut, and nothing is dark, also where the screen is."""
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    # A4 without its margins.
    set_width(browser, 695)
    wait_for_drawing(browser)
    colours = browser.execute_script(
        "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
    )
    assert colours == ["rgb(255, 255, 255)", "rgb(28, 31, 35)"]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 695
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('figure svg[role=img]')].map((each) => {"
        " const box = each.getBoundingClientRect();"
        " return [box.right, box.height, getComputedStyle(each.closest('figure')).breakInside]; })"
    )
    assert all(right <= 695 and high < 980 and kept == "avoid" for right, high, kept in boxes)


@pytest.mark.parametrize("name", ["report", "case", "service"])
def test_no_page_is_painted_in_another_theme_first(browser, pages, name):
    watch = (
        "new MutationObserver(() => { if (document.body && !window.first)"
        " window.first = getComputedStyle(document.documentElement).colorScheme; })"
        ".observe(document, { childList: true, subtree: true });"
    )
    browser.get(pages[name])
    browser.execute_script("localStorage.setItem('asdf-report-theme', 'dark')")
    script = "Page.addScriptToEvaluateOnNewDocument"
    known = browser.execute_cdp_cmd(script, {"source": watch})["identifier"]
    try:
        # From elsewhere: an address that is open already may count as loaded at once.
        browser.get("about:blank")
        browser.get(pages[name])
        assert browser.execute_script("return window.first") == "dark"
        assert find(browser, "theme").text == "Theme: dark"
    finally:
        browser.execute_script("localStorage.clear()")
        remove = "Page.removeScriptToEvaluateOnNewDocument"
        browser.execute_cdp_cmd(remove, {"identifier": known})


def seen(browser) -> str:
    return find(browser, "seen").text


def times(browser) -> list[str]:
    texts = every(browser, "#picture svg:last-of-type > text.soft")
    return [text.text for text in texts if ":" in text.text]


def test_the_picture_is_zoomed_by_buttons_and_keys_and_comes_back(picture):
    whole = f"0:00 to 0:{SECONDS} of 0:{SECONDS}"
    assert seen(picture) == whole
    assert times(picture) == [clock(time) for time in range(0, SECONDS + 1, 5)]
    assert not find(picture, "zoom-out").is_enabled()
    find(picture, "zoom-in").click()
    assert seen(picture) == f"0:00 to 0:20 of 0:{SECONDS}"
    assert times(picture)[-1] == "0:20"
    # Of few windows each has its mark, with its score in words.
    marks = every(picture, "#picture circle.marker title")
    assert marks[0].get_attribute("textContent").endswith(", 0:00 to 0:01")
    canvas = find(picture, "picture")
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert seen(picture).startswith("0:04 to 0:24")
    canvas.send_keys("+")
    assert seen(picture).startswith("0:09 to 0:19")
    assert not find(picture, "zoom-in").is_enabled()
    canvas.send_keys(Keys.END)
    assert seen(picture).startswith("0:30 to 0:40")
    canvas.send_keys("-")
    assert seen(picture).startswith("0:20 to 0:40")
    find(picture, "zoom-whole").click()
    assert seen(picture) == whole


def test_the_picture_is_zoomed_by_wheel_and_fingers_and_dragged(picture):
    canvas = find(picture, "picture")
    wheel = (
        "const box = arguments[0].querySelector('.frame').getBoundingClientRect();"
        "const event = new WheelEvent('wheel', { deltaY: arguments[1], ctrlKey: arguments[2],"
        " clientX: (box.left + box.right) / 2, bubbles: true, cancelable: true });"
        "arguments[0].dispatchEvent(event); return event.defaultPrevented"
    )
    assert picture.execute_script(wheel, canvas, -200, True)
    wait_until(picture, lambda b: seen(b).startswith("0:10 to 0:30"))
    # By itself it scrolls the page.
    assert not picture.execute_script(wheel, canvas, -200, False)
    frame = one(canvas, ".frame")
    wide = int(frame.rect["width"])
    ActionChains(picture).move_to_element(canvas).click_and_hold().move_by_offset(
        wide // 4, 0
    ).release().perform()
    wait_until(picture, lambda b: seen(b).startswith("0:05 to 0:25"))
    # It was no click.
    assert float(find(picture, "player").get_property("currentTime")) == 0
    find(picture, "zoom-whole").click()
    picture.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    left, top, wide = picture.execute_script(
        "const box = arguments[0].querySelector('.frame').getBoundingClientRect();"
        "return [box.left, box.top + 10, box.width]",
        canvas,
    )

    def touch(kind, *shares):
        points = [{"x": left + share * wide, "y": top, "id": i} for i, share in enumerate(shares)]
        picture.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.4, 0.6)
    for step in (0.05, 0.1):
        touch("touchMove", 0.4 - step, 0.6 + step)
    touch("touchEnd")
    # The fingers are twice as far apart, around the same moment.
    wait_until(picture, lambda b: seen(b).startswith("0:10 to 0:30"))


def test_a_click_plays_from_there_and_the_picture_follows(picture):
    ActionChains(picture).move_to_element(find(picture, "picture")).click().perform()
    player = find(picture, "player")
    played = float(player.get_property("currentTime"))
    assert played == pytest.approx(SECONDS / 2, abs=2.5)
    picture.execute_script("player.pause()")
    find(picture, "zoom-whole").click() if find(picture, "zoom-whole").is_enabled() else None
    go = (
        "const [time, done] = arguments; player.addEventListener('timeupdate', () => done(),"
        " { once: true }); player.currentTime = time"
    )
    picture.execute_async_script(go, 5)
    find(picture, "zoom-in").click()
    find(picture, "zoom-in").click()
    assert seen(picture).startswith("0:03 to 0:13")
    picture.execute_async_script(go, 12)
    assert seen(picture).startswith("0:03 to 0:13")
    picture.execute_async_script(go, 14)
    assert seen(picture).startswith("0:14 to 0:24")
    # Who looks elsewhere is not fetched back.
    find(picture, "picture").send_keys(Keys.HOME)
    picture.execute_async_script(go, 30)
    assert seen(picture).startswith("0:00 to 0:10")


def test_both_engines_have_the_same_ticks(picture):
    rng = np.random.default_rng(5)
    for low, span in zip(rng.normal(0, 3, 40), 10 ** rng.uniform(-3, 3, 40), strict=True):
        ends = (float(low), float(low + span))
        drawn = picture.execute_script("return niceTicks(...arguments)", *ends, 5)
        assert drawn == pytest.approx(nice_ticks(*ends, 5), rel=1e-9, abs=1e-12)
    for seconds in (0.7, 1.5, 3, 7, 15, 27, 61, 100, 200, 400, 900, 2000, 4500, 7000, 12000, 20000):
        axis = time_axis(seconds, "")
        drawn = picture.execute_script("return timeTicks(0, arguments[0], 8)", seconds)
        assert drawn == pytest.approx(axis.ticks)
        texts = picture.execute_script("return arguments[0].map(tickClock)", drawn)
        assert texts == list(map(axis.text, axis.ticks))


def test_a_printed_case_is_few_sheets(browser, pages):
    browser.get(pages["case"])
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    assert base64.b64decode(printed).count(b"/Type /Page\n") <= 3
