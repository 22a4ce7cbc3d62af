//! What pages built without a template share: head, policy, style and script.

use super::markup::{Markup, Tag};
use super::{SCRIPT, STYLE, disarm_lines, policy};

/// A complete document with this title.
pub(super) fn page(title: &str, body: &Markup) -> String {
    let title = Tag::new("title").text(&format!("{title} · Kneepoint")).done();
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n{title}\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <div id=\"tip\" role=\"status\" aria-live=\"polite\" hidden></div>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>",
        policy::policy(STYLE, SCRIPT)
    );
    disarm_lines(&html)
}

/// A part of a page under its heading; nothing where there is nothing in it.
pub(super) fn section(id: &str, title: &str, inside: &Markup) -> Markup {
    if inside.is_empty() {
        return Markup::default();
    }
    let heading = Tag::new("h2").text(title).done();
    Tag::new("section").attr("id", id).with(&heading).with(inside).done()
}
