"""The report in a real browser: it draws, sorts, searches, fetches nothing and logs no error.

It needs Chromium and its driver on the machine; they are never fetched.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from asdf.__main__ import main
from asdf.evaluation import evaluate, read_scores
from asdf.metrics.summary import Summary
from asdf.report import gather, runs_in
from tests.conftest import PATIENCE_S
from tests.scripts.chromium import every, needs_chromium, one, requested_addresses, wait_for_drawing
from tests.unit.report.folders import HOSTILE, make_run

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    base = tmp_path_factory.mktemp("runs")
    large = make_run(base / "large", shift=4, clip_size=16000, attacks=("A01", HOSTILE))
    return [make_run(base / "small"), large, make_run(base / "third", clip_size=4000)]


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", *map(str, folders), "--output", str(path), "--replicates", "50"]) == 0
    return path


def summaries_of(folders: list[Path]) -> list[Summary]:
    return gather(runs_in(folders), replicates=0).summaries_on("dev")


@pytest.fixture
def opened(browser, page):
    """Load the page; whatever a test does to it, it must log no error and fetch nothing."""
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    # The plots are redrawn when their width is first observed.
    wait_for_drawing(browser)
    yield browser
    assert browser.get_log("browser") == []
    assert requested_addresses(browser, page.as_uri()) <= {page.as_uri()}


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.]+),([-\d.]+)", path)]


def data(browser) -> dict:
    return json.loads(browser.find_element(By.ID, "data").get_attribute("textContent"))


SHOWN = ":not(.unticked, .unchosen, .unchosen *)"
LINES = f"svg.det path.line[data-name]{SHOWN}"


def names_of_lines(browser, section: str) -> list[str]:
    lines = every(browser, f"{section} {LINES}")
    return [line.get_attribute("data-name") for line in lines]


def column(browser, table: str, number: int) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelector(arguments[0]).tBodies[0].rows]"
        ".map((row) => row.cells[arguments[1]].innerText)",
        table, number,
    )  # fmt: skip


def test_curves_are_drawn_point_by_point(opened):
    curves = every(opened, f"#set-0 {LINES}")
    assert names_of_lines(opened, "#set-0") == ["large", "small", "third"]
    sent = data(opened)["sets"]["dev"]
    x_of = {}
    for curve, system in zip(curves, sent, strict=True):
        drawn, rates = points(curve.get_attribute("d")), system["curves"][""]
        assert len(drawn) == len(rates) // 2
        assert rates[:2] == [100, 0]
        assert rates[-2:] == [0, 100]
        # From the lower right to the upper left; the same rate has the same position on the page.
        assert drawn[0][0] > drawn[-1][0]
        assert drawn[0][1] > drawn[-1][1]
        for (x, _), rate in zip(drawn, rates[::2], strict=True):
            assert x_of.setdefault(rate, x) == x
    ticks = [text.text for text in every(opened, "#set-0 svg.det:not(.unchosen) text.soft")]
    assert ticks[:9] == ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "40"]


def test_the_script_draws_nothing_again(opened, page):
    figures = page.read_text().partition("<main>")[2].partition("<script")[0]
    drawn = "figure.plot svg[role=img] path:not(.readout *)"
    one(opened, "#set-0 .legend input[data-name=large]").click()
    shapes = opened.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((p) => p.getAttribute('d'))", drawn
    )
    sent = set(re.findall(r' d="([^"]*)"', figures))
    assert len(shapes) > 100 and set(shapes) <= sent


def test_both_axes_are_normal_deviates(opened):
    lines = every(opened, "#set-0 svg.det:not(.unchosen) path.grid")
    marks = [re.match(r"M([-\d.]+),([-\d.]+)", line.get_attribute("d")) for line in lines]
    upright, level = [float(mark[1]) for mark in marks[:9]], [float(mark[2]) for mark in marks[9:]]
    deviates = (-3.0902, -2.8782, -2.5758, -2.3263, -2.0537, -1.6449, -1.2816, -0.8416, -0.2533)
    for positions in (upright, level):
        scale = (positions[-1] - positions[0]) / (deviates[-1] - deviates[0])
        assert [(p - positions[0]) / scale + deviates[0] for p in positions] == pytest.approx(
            deviates, abs=1e-3
        )


def test_results_are_those_of_evaluate(opened, folders):
    shown = column(opened, "#set-0 table.metrics", 2)
    eers = [evaluate(read_scores(run / "scores" / "epoch.2" / "dev.txt")).eer for run in folders]
    expected = [round(100 * eer, 2) for eer in sorted(eers)]
    assert [float(text.split()[0]) for text in shown] == expected
    assert [text.upper().endswith("BEST") for text in shown] == [True, False, False]


def test_tables_sort_by_click_and_by_keyboard(opened):
    button = one(opened, "#set-0 table.metrics th:nth-child(3) button")
    head = one(opened, "#set-0 table.metrics th:nth-child(3)")
    assert head.get_attribute("aria-sort") is None
    button.click()
    rising = [float(text.split()[0]) for text in column(opened, "#set-0 table.metrics", 2)]
    assert rising == sorted(rising)
    assert head.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.ENTER)
    assert [float(text.split()[0]) for text in column(opened, "#set-0 table.metrics", 2)] == rising[
        ::-1
    ]
    assert head.get_attribute("aria-sort") == "descending"
    one(opened, "#set-0 table.heat th:nth-child(2) button").click()
    assert column(opened, "#set-0 table.heat", 0)[0] == "Spoof trials"


def test_an_attack_is_chosen_for_curves_and_histograms(opened):
    chooser = one(opened, "#set-0 figure[data-plot=det] select")
    chooser.send_keys("only A03")
    assert names_of_lines(opened, "#set-0") == ["small", "third"]
    drawn = one(opened, f"#set-0 {LINES}").get_attribute("d")
    assert len(points(drawn)) == len(data(opened)["sets"]["dev"][1]["curves"]["A03"]) // 2
    spoofs = f"#set-0 figure[data-plot=histograms] svg[data-name=small] .line.c1{SHOWN}"
    (before,) = every(opened, spoofs)
    assert before.get_attribute("data-choice") == ""
    one(opened, "#set-0 figure[data-plot=histograms] select").send_keys("A03")
    (after,) = every(opened, spoofs)
    assert after.get_attribute("data-choice") == "A03"
    assert after.is_displayed() and not before.is_displayed()
    assert after.get_attribute("d") != before.get_attribute("d")


def test_a_system_is_switched_off_everywhere(opened):
    one(opened, "#set-0 .legend input[data-name=large]").click()
    for section in ("#set-0", "#set-1"):
        assert names_of_lines(opened, section) == ["small", "third"]
        curve = one(opened, f"{section} svg.det path[data-name=large]")
        assert not curve.is_displayed()
    assert not one(opened, "#training .legend input[data-name=large]").is_selected()


def test_training_curves_end_where_the_training_did(opened):
    assert len(every(opened, "#training svg[role=img]")) == 3
    label = one(opened, "#training svg.loss").get_attribute("aria-label")
    assert (
        label == "Loss (marked: on dev) by epoch. small: 0.5 at epoch 2; large: 0.5 at epoch 2; "
        "third: 0.5 at epoch 2; small: 0.75 on dev at epoch 2; large: 0.75 on dev at epoch 2; "
        "third: 0.75 on dev at epoch 2"
    )
    marks = every(opened, "#training svg.loss .marker")
    assert len(marks) == 6 and len(every(opened, ".loss .chosen")) == 3
    titles = [one(mark, "title") for mark in marks]
    assert titles[0].get_attribute("textContent") == "small, epoch 1: 1.5 on dev"
    assert len(every(opened, "#training svg.eer .marker")) == 6


def test_settings_are_searched_and_two_runs_are_compared(opened):
    box = opened.find_element(By.ID, "search")
    box.send_keys("NETWORK line")
    rows = every(opened, "#settings table.settings tbody tr")
    assert [row.text for row in rows if row.is_displayed()] == [
        "network.max_epochs 2 command line, over 1000 (default)"
    ] * 3
    box.clear()
    box.send_keys(Keys.SPACE)
    assert [row for row in rows if row.is_displayed()] == []
    cells = "#settings table.differences tbody td:not([hidden]) code"
    assert [cell.text for cell in every(opened, cells)] == ["8000", "16000"]
    every(opened, "#settings select")[1].send_keys("third")
    assert [cell.text for cell in every(opened, cells)] == ["8000", "4000"]


def test_tables_are_copied_with_all_digits(opened, folders):
    opened.execute_script(
        "navigator.clipboard.writeText = (text) => {"
        "  document.body.dataset.copied = text; return Promise.resolve(); }"
    )
    csv, tex = every(opened, "#set-0 .tools")[0].find_elements(By.TAG_NAME, "button")
    csv.click()
    result = evaluate(read_scores(folders[1] / "scores" / "epoch.2" / "dev.txt"))
    lines = opened.find_element(By.TAG_NAME, "body").get_attribute("data-copied").splitlines()
    assert lines[0].startswith("System,Network,EER %,95 % interval,")
    assert lines[1].startswith(f"large,epoch.2,{100 * result.eer!r},")
    tex.click()
    latex = opened.find_element(By.TAG_NAME, "body").get_attribute("data-copied")
    assert latex.startswith("% \\usepackage{booktabs}\n\\begin{tabular}{llr")
    assert [latex.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 1, 1]
    assert "EER \\%" in latex
    assert latex.count("\\textbf{") == 2
    # In the overview each value has its interval in brackets.
    every(opened, "#results .tools button")[1].click()
    latex = opened.find_element(By.TAG_NAME, "body").get_attribute("data-copied")
    rows = [line for line in latex.splitlines() if line.startswith(("large", "small"))]
    value, interval = r"\d+\.\d\d", r"\(\d+\.\d\d--\d+\.\d\d\)"
    assert re.match(rf"large & epoch\.2 & \\textbf\{{{value}\}} {interval} & ", rows[0])
    assert re.match(rf"small & epoch\.2 & {value} {interval} & ", rows[1])


def test_hostile_names_are_shown_as_they_are(opened):
    assert opened.execute_script("return document.querySelectorAll('b, [onclick]').length") == 0
    texts = every(opened, "#set-0 figure[data-plot=det] option")
    assert f"only {HOSTILE}" in [text.get_attribute("textContent") for text in texts]


def test_it_is_dark_where_the_system_is_and_where_the_reader_says_so(opened):
    def background() -> str:
        return opened.execute_script("return getComputedStyle(document.body).backgroundColor")

    def system(scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    system("light")
    light = background()
    system("dark")
    dark = background()
    assert (light, dark) == ("rgb(253, 253, 251)", "rgb(21, 23, 26)")
    button = opened.find_element(By.ID, "theme")
    button.click()
    assert (button.text, background()) == ("Theme: light", light)
    system("light")
    button.click()
    assert (button.text, background()) == ("Theme: dark", dark)
    button.click()
    assert (button.text, background()) == ("Theme: auto", light)


def test_plots_have_words_and_headings_are_in_order(opened, folders):
    labels = [e.get_attribute("aria-label") for e in every(opened, f"svg[role=img]{SHOWN}")]
    # The runs differ in one setting, whose effect is drawn first, on both sets.
    assert len(labels) == 2 + 2 * (1 + 3) + 3
    effects = [label.partition(". ")[0] for label in labels[:2]]
    assert effects == [f"EER on {name} by network.train_clip_size" for name in ("dev", "eval")]
    labels = labels[2:]
    eers = [f"{100 * summary.result.eer:.2f}" for summary in summaries_of(folders)]
    assert (
        labels[0] == f"DET curves on dev. large: EER {eers[0]} %; small: EER {eers[1]} %; "
        f"third: EER {eers[2]} %"
    )
    opened.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert opened.switch_to.active_element.text == "Skip to the results"


def test_the_pointer_reads_out_rates_and_threshold(opened):
    drawing = one(opened, "#set-0 svg.det:not(.unchosen)")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", drawing)
    mark = one(opened, "#set-0 svg.det:not(.unchosen) .marker")
    ActionChains(opened).move_to_element(mark).perform()
    read = every(opened, "#set-0 svg.det:not(.unchosen) .read tspan")
    system = data(opened)["sets"]["dev"][0]
    rates, thresholds = system["curves"][""], system["thresholds"][""]
    points_in_words = [
        [
            "large",
            f"miss {rates[2 * i + 1]:.4g} %, false alarm {rates[2 * i]:.4g} %",
            f"threshold {thresholds[i]:.4g}".replace("-", "−"),
        ]
        for i in range(len(thresholds))
    ]
    assert [line.text for line in read] in points_in_words
    ActionChains(opened).move_to_element(opened.find_element(By.TAG_NAME, "nav")).perform()
    assert not one(opened, "#set-0 svg.det:not(.unchosen) .readout").is_displayed()


def test_figures_are_saved_with_their_looks(opened):
    opened.execute_script(
        "const make = URL.createObjectURL; window.blobs = []; window.names = [];"
        "URL.createObjectURL = (blob) => { blobs.push(blob); return make.call(URL, blob); };"
        "HTMLAnchorElement.prototype.click = function () { names.push(this.download); };"
    )
    svg, png = every(opened, "#set-0 figure[data-plot=det] .tools button")
    assert (svg.text, png.text) == ("Save as SVG", "Save as PNG")
    opened.execute_script("arguments[0].click()", svg)
    text = opened.execute_async_script("blobs[0].text().then(arguments[0])")
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "var(" not in text
    assert "class=" not in text
    assert 'stroke="rgb(0, 114, 178)"' in text
    assert "Miss: bona fide rejected (%)" in text
    opened.execute_script("arguments[0].click()", png)
    WebDriverWait(opened, PATIENCE_S).until(lambda b: b.execute_script("return names.length") == 2)
    assert opened.execute_script("return names") == ["det-dev.svg", "det-dev.png"]
    first = opened.execute_async_script(
        "const done = arguments[0];"
        "blobs.at(-1).slice(0, 8).arrayBuffer().then((bytes) => done([...new Uint8Array(bytes)]));"
    )
    assert bytes(first) == b"\x89PNG\r\n\x1a\n"


def test_histograms_have_one_range_and_name_their_threshold(opened, folders):
    drawings = every(opened, "#set-0 svg.histogram")
    ticks = set()
    for drawing in drawings:
        texts = every(drawing, "text.soft[text-anchor=middle]")
        ticks.add(tuple(text.text for text in texts))
    assert len(drawings) == 3
    assert len(ticks) == 1
    threshold = summaries_of(folders)[0].result.eer_threshold
    label = drawings[0].find_element(By.CSS_SELECTOR, ".halo").text
    assert label == f"{threshold:.4g}".replace("-", "−")


def test_on_a_phone_results_fit_settings_are_stacked_and_links_are_high_enough(opened):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        high = (
            "return [...document.querySelectorAll('nav a')]"
            ".map((link) => link.getBoundingClientRect().height)"
        )
        assert min(opened.execute_script(high)) >= 44
        cells = opened.execute_script(
            "const row = document.querySelector('#settings details.run table.settings tbody tr');"
            "row.closest('details').open = true;"
            "return [...row.cells].map((cell) => {"
            "  const box = cell.getBoundingClientRect(); return [box.x, box.y, box.bottom]; })"
        )
        assert len({x for x, _, _ in cells}) == 1
        assert all(after[1] >= before[2] for before, after in pairwise(cells))
        widths = opened.execute_script(
            "const box = document.querySelector('table.overview').closest('.scroll');"
            "return [box.scrollWidth, box.clientWidth, box.querySelector('tr').cells.length];"
        )
        assert widths[0] <= widths[1] and widths[2] >= 3
        # The first column stays where a table is scrolled.
        moved = opened.execute_script(
            "const box = document.querySelector('#set-0 table.metrics').closest('.scroll');"
            "const x = () => box.querySelector('tbody th').getBoundingClientRect().x;"
            "const before = x(); box.scrollLeft = 200; return [box.scrollLeft, x() - before];"
        )
        assert moved == [200, 0]
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_is_printed_but_the_controls(opened):
    shown = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".map((element) => element.offsetParent !== null)"
    )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        cells = opened.execute_script(shown, "table.differences tbody td")
        controls = opened.execute_script(shown, "nav, select, .tools button")
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert set(cells) == {True}
    assert set(controls) == {False}


def test_of_many_systems_the_best_are_ticked_and_others_can_be(browser, tmp_path):
    runs = []
    for i in range(11):
        folder = tmp_path / f"net{i:02d}"
        runs.append(make_run(folder, shift=1 + i / 3, sets=("dev",), epochs=(1,)))
    page = tmp_path / "many.html"
    assert main(["report", *map(str, runs), "--output", str(page), "--replicates", "0"]) == 0
    browser.get(page.as_uri())

    def shown() -> int:
        return len(names_of_lines(browser, "#set-0"))

    assert shown() == 8
    assert len(every(browser, f"#set-0 svg.histogram{SHOWN}")) == 8
    best, whole, none = every(browser, "#set-0 figure .choices button")
    whole.click()
    assert shown() == 11
    none.click()
    assert shown() == 0
    best.click()
    boxes = every(browser, "#set-0 .legend input")
    ticked = [box.get_attribute("data-name") for box in boxes if box.is_selected()]
    assert ticked == data(browser)["systems"][:8]
    assert browser.get_log("browser") == []
