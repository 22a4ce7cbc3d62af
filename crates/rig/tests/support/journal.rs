//! A journal for unit tests, whose guardian acts on nothing.

use std::path::Path;

/// A journal in a folder whose guardian reads to the end of its input and acts on nothing. Programs
/// are launched as Kneepoint does: in a session of their own, once they are told to begin.
pub(crate) fn undo(folder: &Path) -> crate::undo::Undo {
    let server = folder.join("guardian");
    let launch = r#"[ "$2" = launch ] || exec cat >/dev/null
input=$4; shift 4
exec setsid sh -c '[ "$(head -c 1)" = ! ] || exit 1
input=$1; shift
[ "$input" != - ] || input=/dev/null
exec "$@" <"$input"' sh "$input" "$@""#;
    crate::script::script(&server, launch);
    crate::undo::Undo::begin(folder, &server)
}
