r"""The script `launch-tmux`: the keeper of a record, started from a pane of the login's own tmux server.

launch-tmux PORTS TOKEN ID SESSION       SESSION: letters, digits, `_` and `-`
    as `launch` (see keeper.py), but  started NAME\n, with the session that was used: SESSION, made anew or with its dead pane used again; where
    something runs in it, SESSION-2, SESSION-3 or SESSION-ID.   exit 3 also:  no-tmux\n   tmux-failed\n (what tmux said on stderr; nothing was started)

The pane starts the keeper and shows the log for as long as it lives, then how it ended. `respawn-pane` without -k touches no pane in which something runs.
"""

from __future__ import annotations

from typing import Final

from eagletui.shell.fragments import FENCE
from eagletui.shell.keeper import PREPARE, START
from eagletui.shell.record_texts import PLACE
from eagletui.shell.script import Command, Script

# $1 the keeper's text, $2 the record's directory, $3 the log. Stands between single quotes, so it holds none.
_PANE: Final = r"""
setsid setsid env -i "PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}" sh -c "$1" eagletui-keeper "$2" </dev/null >/dev/null 2>&1
keeper=; tries=0
while [ -z "$keeper" ] && [ "$tries" -lt 50 ]; do
read -r keeper more 2>/dev/null <"$2/keeper" || sleep 0.1
tries=$((tries + 1))
done
printf "eagletui: this shows %s. Closing it ends nothing that runs.\n" "$3"
if tail --pid=$$ -c 0 /dev/null >/dev/null 2>&1; then tail --pid="${keeper:-1}" -n +1 -f "$3"
else
at=0; lives=y
while [ -n "$lives" ]; do
[ -d "/proc/${keeper:-1}" ] || lives=
size=$(wc -c <"$3") && [ "$size" -gt "$at" ] && { tail -c +$((at + 1)) "$3" | head -c $((size - at)); at=$size; }
[ -z "$lives" ] || sleep 0.5
done
fi
status=; read -r status more 2>/dev/null <"$2/exit"
printf "eagletui: it ended with status %s.\n" "${status:-unknown}"
"""

LAUNCH_TMUX: Final = Script(
    "launch-tmux",
    FENCE
    + PLACE
    + START
    + "eagletui_pane='"
    + _PANE
    + "'\n"
    + r"""
session=${2:-}
case $session in ''|-*|*[!0-9A-Za-z_-]*) printf '%s\n' 'not a name' >&2; exit 2;; esac
command -v tmux >/dev/null 2>&1 || { printf 'no-tmux\n'; exit 3; }
"""
    + PREPARE
    + r"""
unset LC_ALL
shown() { tmux "$@" sh -c "$eagletui_pane" eagletui-pane "$eagletui_keeper" "$dir" "$log" </dev/null >/dev/null; }
made=
for name in "$session" "$session-2" "$session-3" "$session-$id"; do
if said=$(shown new-session -d -s "$name" -n server -c / 2>&1); then made=y; break; fi
case $said in *duplicate*) ;; *) break;; esac
if shown respawn-pane -t "=$name:" 2>/dev/null; then made=y; break; fi
done
if [ -z "$made" ]; then
rm -f "$dir/begun"; [ -s "$log" ] || rm -f "$log"
printf '%s\n' "$said" >&2
no_launch tmux-failed
fi
tmux set-window-option -t "=$name:" remain-on-exit on </dev/null >/dev/null 2>&1
printf 'started %s\n' "$name"
exit 0
""",
    reads_only=False,
)


def ask_launch_tmux(fence: tuple[str, str], record_id: str, session: str) -> Command:
    """Start the keeper of this record in a session of that name."""
    return Command(LAUNCH_TMUX, (*fence, record_id, session))
