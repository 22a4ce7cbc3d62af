//! The page in a real browser: its script runs under its own policy, reads values where pointed
//! at, fits a phone, and asks for nothing from anywhere.

mod synthetic;

use kneepoint_report::html;
use kneepoint_vocab::findings::{CaveatReason, Conclusion};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Notes whatever goes wrong, before anything else runs.
const WATCH: &str = r#"<script>
const note = (words) => {
  const seen = document.documentElement.dataset;
  seen.errors = (seen.errors || "") + words + "; ";
};
addEventListener("error", (event) => note(event.message || "resource"), true);
addEventListener("unhandledrejection", (event) => note(String(event.reason)));
addEventListener("securitypolicyviolation",
  (event) => note(event.blockedURI + " " + event.violatedDirective));
</script>"#;

/// Plays a reader and writes what it sees into attributes of the root element.
const PLAY: &str = r##"<script>
(() => {
  const seen = document.documentElement.dataset;
  const tip = document.getElementById("tip");
  const point = (element) => {
    const at = { bubbles: true, clientX: 40, clientY: 40 };
    element.dispatchEvent(new PointerEvent("pointermove", at));
    return tip.hidden ? "" : tip.textContent;
  };
  seen.curve = point(document.querySelectorAll("svg.wide .reading")[1]);
  seen.treated = point(document.querySelector("svg.wide .beside .reading"));
  const stroke = (name) => getComputedStyle(document.querySelector("svg.wide " + name)).stroke;
  seen.apart = String(stroke(".beside .curve") !== stroke("> .curve"));
  seen.band = point(document.querySelector("svg.wide a.band"));
  seen.frame = point(document.querySelector(".frame"));
  const causes = document.querySelectorAll("details.cause");
  for (const cause of causes) cause.open = false;
  const band = document.querySelector("svg.wide a.band");
  band.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  const same = [...document.querySelectorAll("a.band")]
    .filter((other) => other.getAttribute("href") === band.getAttribute("href"));
  seen.kin = String(same.length > 1 && same.every((other) => other.classList.contains("kin")));
  band.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
  setTimeout(() => {
    const opened = document.getElementById(band.getAttribute("href").slice(1)).closest("details");
    seen.clicked = String(opened.open && [...causes].filter((cause) => cause.open).length === 1);
    causes[1].open = false;
    location.hash = "#cause-2";
  }, 100);
  const flames = document.querySelectorAll(".flame");
  const flame = flames[flames.length - 1];
  const field = flame.querySelector("input");
  field.value = "futex";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  seen.found = flame.querySelector(".found").textContent;
  const frames = [...flame.querySelectorAll(".frame")];
  const step = frames.find((frame) => frame.dataset.tip.startsWith("sqlite3VdbeExec"));
  step.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  seen.zoomed = step.getAttribute("width");
  step.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  seen.back = String(step.getAttribute("width") !== "100%");
  const turn = flame.querySelector(".turn");
  const rows = (of) => [...of.querySelectorAll(".frame")].map((frame) => frame.getAttribute("y"));
  const before = rows(flame).length;
  turn.click();
  const leaves = [...flame.querySelectorAll(".frame")]
    .filter((frame) => frame.getAttribute("y") === "18");
  const read = leaves.map((leaf) => point(leaf)).join("; ");
  seen.turned = turn.getAttribute("aria-pressed") + " " + read;
  const sum = leaves.reduce((sum, leaf) => sum + parseFloat(leaf.getAttribute("width")), 0);
  seen.turnedsum = String(Math.round(sum));
  turn.click();
  seen.returned = String(rows(flame).length === before);
  seen.paper = getComputedStyle(document.body.parentElement).backgroundColor;
  setTimeout(() => {
    seen.opened = String(causes[1].open);
    seen.width = innerWidth + "/" + document.documentElement.scrollWidth;
    const widths = innerWidth + "/" + document.documentElement.scrollWidth;
    if (parent !== window) parent.postMessage(widths, "*");
  }, 300);
})();
</script>"##;

/// A frame as wide as a phone, since a browser window may refuse to be that narrow.
const PHONE: &str = r#"<!doctype html><html><body style="margin:0">
<iframe src="played.html" width="360" height="5200" style="border:0"></iframe>
<script>
addEventListener("message", (event) => { document.documentElement.dataset.phone = event.data; });
</script>
</body></html>"#;

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Runs the browser on a file and returns what it prints.
fn browse(name: &str, page: &Path, more: &[&str]) -> String {
    let profile = tempfile::tempdir().expect("a folder for the browser");
    let output = Command::new(name)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("a browser that starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An attribute of the root element in a dumped document.
fn seen<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let open = &dom[..dom.find("<head")?];
    let (_, after) = open.split_once(&format!("data-{name}=\""))?;
    Some(after.split_once('"')?.0)
}

/// The page with a watcher before and a player after its own script, and a policy that lets
/// these two run.
fn played(page: &str, player: &str) -> String {
    let (before, after) = page.split_once("script-src ").expect("a policy for scripts");
    let (_, rest) = after.split_once("; img-src").expect("a policy for images");
    let page = format!("{before}script-src &#39;unsafe-inline&#39;; img-src{rest}");
    page.replacen("<style>", &format!("{WATCH}<style>"), 1).replacen(
        "</body>",
        &format!("{player}</body>"),
        1,
    )
}

/// Where pages and pictures are left for a person to look at.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-browser");
    std::fs::create_dir_all(&folder).expect("a folder for pages");
    folder
}

#[test]
fn a_reader_uses_the_page() {
    let Some(name) = browser() else {
        println!("SKIP browser: chromium not found");
        return;
    };
    let page = html::render(&synthetic::treated::beside(synthetic::findings()));
    let folder = folder();
    let file = |file: &str, content: &str| {
        let path = folder.join(file);
        std::fs::write(&path, content).expect("a page on disk");
        path
    };
    let plain = file("report.html", &page);
    let untouched = browse(name, &plain, &["--dump-dom"]);
    assert!(untouched.contains("class=\"scripted\""), "the script ran under the page's own policy");

    let path = file("played.html", &played(&page, PLAY));
    let dom = browse(name, &path, &["--window-size=1200,900", "--dump-dom"]);
    assert_eq!(seen(&dom, "errors"), None);
    let reads = |attribute: &str, words: &str| {
        let read = seen(&dom, attribute).unwrap_or("nothing");
        assert!(read.contains(words), "{attribute} reads {read:?}, not {words:?}");
    };
    reads("curve", "4.60k");
    reads("curve", "switches/s");
    reads("curve", "private page caches: 20.8k");
    reads("treated", "private page caches");
    reads("apart", "true");
    reads("band", "cores");
    reads("frame", "all");
    reads("found", "% of the time");
    reads("zoomed", "100%");
    reads("back", "true");
    reads("turned", "true");
    reads("turned", "__schedule");
    reads("turnedsum", "100");
    reads("returned", "true");
    reads("opened", "true");
    reads("kin", "true");
    reads("clicked", "true");
    reads("paper", "rgb(252, 252, 250)");

    let dark = ["--blink-settings=preferredColorScheme=0", "--dump-dom"];
    let dom = browse(name, &path, &dark);
    assert_eq!(seen(&dom, "paper"), Some("rgb(20, 23, 27)"));

    let phone = file("phone.html", PHONE);
    let dom = browse(name, &phone, &["--dump-dom"]);
    assert_eq!(seen(&dom, "phone"), Some("360/360"));
}

/// Reads a point of the second number of cores, picks that number, and looks for what shows.
const PICK: &str = r##"<script>
(() => {
  const seen = document.documentElement.dataset;
  const tip = document.getElementById("tip");
  const drawn = (selector) => getComputedStyle(document.querySelector(selector));
  const point = document.querySelector("svg.wide .s1 .reading:nth-child(3)");
  point.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 40, clientY: 40 }));
  seen.point = tip.hidden ? "" : tip.textContent;
  const strip = document.querySelector("svg.wide > .reading");
  strip.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 40, clientY: 40 }));
  seen.strip = tip.textContent;
  seen.before = drawn("svg.wide .s1 .only").display;
  document.getElementById("pick-1").click();
  seen.picked = drawn("svg.wide .s1 .only").display + "/" + drawn("svg.wide .s0").opacity;
  const names = [...document.querySelectorAll("svg.wide .end-name")];
  seen.names = names.map((name) => name.textContent).sort().join(", ");
  for (const details of document.querySelectorAll("details")) details.open = true;
  seen.paper = getComputedStyle(document.body.parentElement).backgroundColor;
  setTimeout(() => {
    const widths = innerWidth + "/" + document.documentElement.scrollWidth;
    if (parent !== window) parent.postMessage(widths, "*");
  }, 300);
})();
</script>"##;

#[test]
fn a_reader_picks_a_number_of_cores() {
    let Some(name) = browser() else {
        println!("SKIP browser: chromium not found");
        return;
    };
    let folder = folder().join("server");
    std::fs::create_dir_all(&folder).expect("a folder for pages");
    let page = html::render(&synthetic::treated::beside(synthetic::server::server()));
    std::fs::write(folder.join("report.html"), &page).expect("a page on disk");
    let path = folder.join("played.html");
    std::fs::write(&path, played(&page, PICK)).expect("a page on disk");
    let dom = browse(name, &path, &["--window-size=1200,900", "--dump-dom"]);
    assert_eq!(seen(&dom, "errors"), None);
    let point = seen(&dom, "point").unwrap_or_default();
    assert!(point.contains("4 clients on 2 cores") && point.contains("5.89k"), "{point}");
    let strip = seen(&dom, "strip").unwrap_or_default();
    assert!(strip.contains("2 cores: 2.18k") && strip.contains("4 cores: 2.19k"), "{strip}");
    assert_eq!(seen(&dom, "before"), Some("none"));
    assert_eq!(seen(&dom, "picked"), Some("inline/0.22"));
    assert_eq!(seen(&dom, "names"), Some("1 core, 2 cores, 4 cores"));

    let dark = ["--blink-settings=preferredColorScheme=0", "--dump-dom"];
    assert_eq!(seen(&browse(name, &path, &dark), "paper"), Some("rgb(20, 23, 27)"));

    let phone = folder.join("phone.html");
    std::fs::write(&phone, PHONE).expect("a page on disk");
    assert_eq!(seen(&browse(name, &phone, &["--dump-dom"]), "phone"), Some("360/360"));

    let imported = folder.join("imported.html");
    std::fs::write(&imported, html::render(&synthetic::server::imported())).expect("a page");
    assert!(browse(name, &imported, &["--dump-dom"]).contains("class=\"scripted\""));
}

/// Turns a difference to the innermost functions and back, and notes the colours.
const TURN: &str = r##"<script>
(() => {
  const seen = document.documentElement.dataset;
  const flames = document.querySelectorAll(".flame");
  const flame = flames[flames.length - 1];
  const looks = () => [...flame.querySelectorAll(".frame")].map((frame) =>
    frame.dataset.tip.split("\n")[0] + " " + frame.getAttribute("class") + " " +
    parseFloat(frame.getAttribute("width")).toFixed(1)).join("; ");
  const before = looks();
  flame.querySelector(".turn").click();
  seen.turned = looks();
  flame.querySelector(".turn").click();
  seen.same = String(looks() === before);
})();
</script>"##;

#[test]
fn a_difference_turns_with_its_colours() {
    let Some(name) = browser() else {
        println!("SKIP browser: chromium not found");
        return;
    };
    let page = html::render(&synthetic::difference::beside(synthetic::findings()));
    let path = folder().join("turned.html");
    std::fs::write(&path, played(&page, TURN)).expect("a page on disk");
    let dom = browse(name, &path, &["--window-size=1200,900", "--dump-dom"]);
    assert_eq!(seen(&dom, "errors"), None);
    assert_eq!(seen(&dom, "same"), Some("true"));
    let turned = seen(&dom, "turned").unwrap_or_default();
    for frame in [
        // Of a mean of 113 µs: all of it, the futex calls, and who made them.
        "do_futex frame in-kernel up3 22.1",
        "sqlite3_step frame up3 22.1",
        "idle frame down2 7.1",
    ] {
        assert!(turned.contains(frame), "{frame} in {turned}");
    }
}

/// Frames of several widths: a window may have a scroll bar of its own, and stays as it is.
const WIDTHS: &str = r#"<!doctype html><html><body style="margin:0">
<script>
const reported = {};
addEventListener("message", (event) => {
  reported[event.source.frameElement.width] = event.data;
  document.documentElement.dataset.widths = Object.values(reported).join(" ");
});
for (const width of [1200, 800, 360]) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 900;
  frame.style.border = 0;
  frame.src = "long.html";
  document.body.append(frame);
}
</script>
</body></html>"#;

/// Tells whether the page is as wide as its window, folded and unfolded.
const MEASURE: &str = r#"<script>
(() => {
  const root = document.documentElement;
  const beyond = () => root.scrollWidth - root.clientWidth;
  setTimeout(() => {
    const folded = beyond();
    for (const details of document.querySelectorAll("details")) details.open = true;
    setTimeout(() => parent.postMessage(folded + "/" + beyond(), "*"), 100);
  }, 300);
})();
</script>"#;

#[test]
fn no_word_is_wider_than_the_page() {
    let Some(name) = browser() else {
        println!("SKIP browser: chromium not found");
        return;
    };
    let mut findings = synthetic::treated::beside(synthetic::findings());
    let word = "/a/path/without/end".repeat(20);
    for caveat in &mut findings.caveats {
        caveat.reason = CaveatReason::Remark { text: word.clone() };
    }
    for effect in &mut findings.effects {
        effect.label.push_str(&word);
    }
    findings.conclusions.push(Conclusion::Undecided { label: word.clone() });
    findings.host.cpu.push_str(&word);
    let folder = folder();
    let page = played(&html::render(&findings), MEASURE);
    std::fs::write(folder.join("long.html"), page).expect("a page on disk");
    let frames = folder.join("widths.html");
    std::fs::write(&frames, WIDTHS).expect("a page on disk");
    let more = ["--allow-file-access-from-files", "--window-size=1300,1000", "--dump-dom"];
    assert_eq!(seen(&browse(name, &frames, &more), "widths"), Some("0/0 0/0 0/0"));
}

#[test]
fn the_page_names_no_other_place() {
    let page = html::render(&synthetic::findings());
    for reference in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
    let links = page.match_indices("href=\"").map(|(at, open)| &page[at + open.len()..]);
    for link in links {
        assert!(link.starts_with('#') || link.starts_with("data:,"), "{:.40}", link);
    }
}
