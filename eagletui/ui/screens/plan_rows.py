"""A plan as rows: what stops, what runs and how that differs, where it logs, what is on the GPUs, what was checked, what is asked. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from eagletui.engines.command_line import NotALaunchError, flags
from eagletui.launching.plan import Check, FlagChange, Holder, Plan, Question, Refusal
from eagletui.launching.recipe import Recipe
from eagletui.shell.masking import MASK, mask_text
from eagletui.ui import format as fmt
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, width_of, wrap

LABEL_CELLS = 11
FLAG_CELLS = 34
VALUE_CELLS = 26
"""Of the two columns of values; a longer value gets rows of its own."""
TEXT_CELLS = 120
"""Sentences are no wider: longer rows are hard to read."""
COMMAND_ROWS = 60
VALUE_ROWS = 6
MODEL_CELLS = 20
"""Of a long name of a model before the rest gets a row of its own."""
KEPT_CHARACTERS = 40
"""Of what two long values have in common before they differ."""
SENTENCE_ROWS = 4
SHOWN_ENTRIES = 4
USER_CELLS = 24
DAY_S = 86_400.0
SIGNS = {"ok": ("✓", "ok"), "warn": ("▲", "warning"), "fail": ("✗", "error"), "unknown": ("?", "warning")}
KIND_WORDS = {"start": "Start", "stop": "Stop", "restart": "Restart"}
_CHANGES = {"+": "ok", "−": "error", "~": "warning"}
_SOURCES = {"profile": "the profile", "record": "as it was launched last", "process": "as it runs now"}
_NO_CONCERN = frozenset({"nobody", "keeper"})


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a plan is shown. `wall`: the time now; `unfolded`: the whole command; `checking`: the checks are not in, and `waited` says for how
    long by now; `asking`: which question is asked now."""

    wall: float
    unfolded: bool = False
    checking: bool = False
    asking: int | None = None
    waited: str = ""


def said(text: str) -> str:
    """Text from the node: masked, and nothing a terminal obeys."""
    return clean(mask_text(text))


def plan_rows(plan: Plan, shown: Shown, width: int, height: int) -> list[Line]:
    """All rows; blank ones between the parts, and a row for each check that passed, where there is room for them."""
    for airy, each in ((True, True), (True, False), (False, False)):
        rows = _all(plan, shown, width, airy=airy, each=each)
        if len(rows) <= height:
            return rows
    return rows


def _all(plan: Plan, shown: Shown, width: int, *, airy: bool, each: bool) -> list[Line]:
    out: list[Line] = []
    for part in _parts(plan, shown, min(width, TEXT_CELLS + LABEL_CELLS), each=each):
        if part and out and airy:
            out.append(EMPTY)
        out += part
    return out


def _parts(plan: Plan, shown: Shown, width: int, *, each: bool) -> Iterator[list[Line]]:
    room = max(20, width - LABEL_CELLS)
    yield _labelled("", [*_refusals(plan, room), *_failed(plan, room)])
    yield _labelled("Stops" if plan.kind != "start" else "Runs here", list(_stops(plan, shown, room)))
    if plan.recipe is not None:
        yield _labelled("Runs", list(_runs(plan, plan.recipe, shown, room)))
        yield _labelled(
            "Logs to", [((row, "text"),) for row in wrap(said(plan.recipe.kept_log or plan.recipe.log), room, 3)]
        )
    yield _labelled("On GPUs", list(_holders(plan.holders, room)))
    yield _labelled("Others", list(_sentences(plan.others, "others", room)))
    yield _labelled("Left over", list(_leftovers(plan, room, each=each)))
    yield _labelled("Orphans", list(_orphans(plan, room)))
    yield _labelled("Checks", list(_checks(plan, shown, room, each=each)))
    yield _labelled("Note", list(_sentences(plan.notes, "dim", room)))
    yield _labelled("Asks", list(_questions(plan.questions, shown, room)))


def _labelled(label: str, rows: Sequence[Line]) -> list[Line]:
    return [(((("" if at else label).ljust(LABEL_CELLS)), "dim"), *row) for at, row in enumerate(rows)]


def _wrapped(
    text: str, role: str, width: int, rows: int = SENTENCE_ROWS, *, mark: Span | None = None
) -> Iterator[Line]:
    """A sentence, behind a mark where it has one."""
    cells = width_of([mark]) + 1 if mark is not None else 0
    for at, row in enumerate(wrap(said(text), max(1, width - cells), rows)):
        head: Line = () if mark is None else ((mark[0] + " ", mark[1]) if not at else (" " * cells, "dim"),)
        yield (*head, (row, role))


def _sentences(texts: Iterable[str], role: str, width: int) -> Iterator[Line]:
    for text in texts:
        yield from _wrapped(text, role, width)


def _refusals(plan: Plan, width: int) -> Iterator[Line]:
    for one in plan.refusals:
        overruled = one.again and plan.wish.again
        role = "warning" if overruled else "error"
        head = f"{fmt_code(one)}: " if not overruled else "you insist; "
        yield from _wrapped(head + one.text, role, width, 6, mark=("▲" if overruled else "✗", role))
        if one.again and not overruled:
            yield (("  ", "dim"), ("a", "key"), (" does it all the same", "dim"))


def _failed(plan: Plan, width: int) -> Iterator[Line]:
    for one in plan.checks or ():
        if one.result == "fail":
            yield from check_rows(one, width)


def fmt_code(refusal: Refusal) -> str:
    """`not done (systemd-unit)`."""
    return f"not done ({clean(refusal.code)})"


def since_words(since_s: float, wall: float) -> str:
    """`since 12:03:44 (2:14:08)`, with the day where it was another one."""
    began = time.localtime(wall - since_s)
    form = "%H:%M:%S" if since_s < DAY_S else "%m-%d %H:%M"
    return f"since {time.strftime(form, began)} ({fmt.duration(since_s)})"


def _stops(plan: Plan, shown: Shown, width: int) -> Iterator[Line]:
    server = plan.server
    if server is None:
        if plan.kind != "start":
            told = any(one.code == "nothing-to-stop" for one in plan.refusals)  # it says so with the port
            yield (("nothing" if told else "nothing: no server runs here", "dim"),)
        return
    model = said((server.model or fmt.UNKNOWN).rstrip("/").rsplit("/", 1)[-1])
    port = f"port {server.port}" if server.port is not None else "no port"
    rest = f"  {server.engine} · {port} · pid {server.pid}" + (f" · {said(server.user)}" if server.user else "")
    if len(model) + len(rest) <= width or width - len(rest) >= MODEL_CELLS:
        yield ((cut(model, width - width_of([(rest, "")])), "accent bold"), (rest, "text"))
    else:
        yield ((cut(model, width), "accent bold"),)
        yield from _wrapped(rest.strip(), "text", width)
    facts: list[str] = []
    if plan.since_s is not None:
        facts.append(since_words(plan.since_s, shown.wall))
    if plan.family:
        facts.append(fmt.plural(len(plan.family), "process", "processes"))
    facts_line: list[Span] = [(" · ".join(facts), "text")]
    if plan.running_requests is not None:
        busy = "warning" if plan.running_requests and plan.kind != "start" else "text"
        facts_line += [
            (" · " if facts else "", "text"),
            (f"{fmt.plural(plan.running_requests, 'request')} running", busy),
        ]
    if width_of(facts_line) <= width:
        yield tuple(facts_line)
    else:
        yield from _wrapped("".join(text for text, _ in facts_line), "text", width)
    if plan.kind != "start" and not plan.refused:
        grace = (
            f"{said(plan.stopped_by)} ends it, as long as that allows; k ends what is left" if plan.stopped_by and plan.kept.kind == "unit"
            else "it drains without limit; k ends it" if not plan.grace_s
            else f"it drains for {fmt.duration(plan.grace_s)} at most (k ends that), then it is killed"
        )  # fmt: skip
        yield from _wrapped(grace, "dim", width)
    if plan.kept.kind not in _NO_CONCERN:
        who = said(plan.kept.name) or plan.kept.kind
        more = [f"pid {plan.kept.pid}"] if plan.kept.pid is not None else []
        more += [f"for {fmt.duration(plan.kept.since_s)}"] if plan.kept.since_s is not None else []
        where = f" ({', '.join(more)})" if more else ""
        concern = plan.kept.kind != "shell"
        word = "a part of a larger server:" if plan.kept.kind == "ranks" else "kept by" if concern else "started from"
        yield from _wrapped(
            f"{word} {who}{where}", "warning" if concern else "dim", width, mark=("▲", "warning") if concern else None
        )


def profile_words(recipe: Recipe) -> str:
    """`k25 / 2step`, or "" where no profile says it."""
    return said(" / ".join(word for word in (recipe.profile, recipe.variant) if word))


def _runs(plan: Plan, recipe: Recipe, shown: Shown, width: int) -> Iterator[Line]:
    named = profile_words(recipe)
    head: list[Span] = (
        [(named, "accent bold"), ("  ", "text")] if named else [(_SOURCES[recipe.source], "text"), ("  ", "text")]
    )
    if plan.wish.changes and not named:
        head = [(f"{_SOURCES[recipe.source]}, changed", "text"), ("  ", "text")]
    if recipe.kept_log is None:
        facts = [f"by {said(recipe.launcher)}", f"in {said(recipe.cwd)}", fmt.plural(len(recipe.env), "variable")]
    else:
        facts = [f"by {said(recipe.launcher)}, as {said(recipe.kept_log)} has it"]
    room = max(8, width - width_of(head))
    rows = wrap(" · ".join(facts), room, 2)
    yield (*head, (rows[0] if rows else "", "dim"))
    for row in rows[1:]:
        yield ((" " * width_of(head) + row, "dim"),)
    compared = plan.server is not None or plan.previous is not None
    yield from diff_rows(plan.changes, width)
    command = shown_words(recipe.shown_command)
    same = _unchanged(recipe.shown_command, plan.changes)
    if shown.unfolded or (not compared and not plan.changes):
        yield from (((row, "dim"),) for row in wrap(command, width, COMMAND_ROWS))
    elif same is None:
        yield from (((row, "dim"),) for row in wrap(command, width, 3))
    else:
        words = (
            f"{fmt.plural(same, 'flag')} as now" if plan.changes else f"the same command, {fmt.plural(same, 'flag')}"
        )
        yield ((words, "dim"), (" · ", "faint"), ("f", "key"), (" shows the command", "dim"))


def shown_words(command: Sequence[str]) -> str:
    """A masked command as a shell would want it, for reading."""
    return " ".join(clean(word if MASK in word else quote(word)) for word in command)


def _unchanged(command: Sequence[str], changes: Sequence[FlagChange]) -> int | None:
    """Flags that stay; None where it is no command of an engine."""
    try:
        names = [name for name, _ in flags(command)]
    except NotALaunchError:
        return None
    return max(0, len(names) - sum(1 for change in changes if change.after is not None))


def flag_word(name: str) -> str:
    """`--tp`; the command itself has no name."""
    bare = clean(name).lstrip("-")
    if not bare:
        return "command"
    return f"--{bare}" if len(bare) > 1 else f"-{bare}"


def diff_rows(changes: Sequence[FlagChange], width: int, heads: tuple[str, str] = ("now", "then")) -> Iterator[Line]:
    """Flag, now, then: three columns; what does not fit its column stands on rows below the flag."""
    if not changes:
        return
    names = [flag_word(change.flag) for change in changes]
    flag_cells = min(FLAG_CELLS, max(len("flag"), *(len(name) for name in names)))
    longest = max(width_of([(said(change.before or ""), "")]) for change in changes)
    value_cells = min(VALUE_CELLS, max(6, (width - 2 - flag_cells - 4) // 2), max(8, longest))
    if flag_cells + 2 * value_cells + 6 > width:
        flag_cells = max(10, width - 2 * value_cells - 6)
    yield ((f"  {'flag':<{flag_cells}}  {heads[0]:<{value_cells}}  {heads[1]}", "faint"),)
    order = {"−": 0, "+": 1, "~": 2}
    for change, name in sorted(zip(changes, names, strict=True), key=lambda pair: order[sign_of(pair[0])]):
        yield from _diff_row(change, name, flag_cells, value_cells, width, heads)


def sign_of(change: FlagChange) -> str:
    """+ added, − removed, ~ changed."""
    return "+" if change.before is None else "−" if change.after is None else "~"


def _diff_row(
    change: FlagChange, name: str, flag_cells: int, value_cells: int, width: int, heads: tuple[str, str]
) -> Iterator[Line]:
    sign = sign_of(change)
    role = _CHANGES[sign]
    before, after = (said(one) if one is not None else "" for one in (change.before, change.after))
    texts = (before or ("" if sign == "+" else "on"), after or ("" if sign == "−" else "on"))
    fits = width_of([(name, "")]) <= flag_cells and width_of([(texts[0], "")]) <= value_cells
    fits = fits and width_of([(texts[1], "")]) <= max(value_cells, width - flag_cells - value_cells - 6)
    if fits:
        pad = " " * (value_cells - width_of([(texts[0], "")]))
        yield (
            (f"{sign} ", role), (f"{name:<{flag_cells}}  ", "text"), (texts[0] + pad, "dim"), ("  ", "text"), (texts[1], "text bold"),
        )  # fmt: skip
        return
    texts = _from_where_they_differ(*texts)
    yield ((f"{sign} ", role), (cut(name, width - 2), "text"))
    for label, text, its in ((heads[0], texts[0], "dim"), (heads[1], texts[1], "text bold")):
        if text:
            for at, row in enumerate(wrap(text, max(8, width - 10), VALUE_ROWS)):
                yield ((f"    {'' if at else label:<4}  ", "faint"), (row, its))


def _from_where_they_differ(before: str, after: str) -> tuple[str, str]:
    """Two long values that begin alike, without what says nothing."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))
    if not before or not after or same <= KEPT_CHARACTERS:
        return before, after
    start = same - KEPT_CHARACTERS
    return f"…{before[start:]}", f"…{after[start:]}"


def _holders(holders: Sequence[Holder], width: int) -> Iterator[Line]:
    """The family in a row for all GPUs; anybody else's each, marked."""
    own = [one for one in holders if one.whose == "family"]
    if own:
        gpus = sorted({one.gpu for one in own})
        total = sum(one.mem_mib or 0 for one in own)
        memory = f"{fmt.gib(total)} GiB" if any(one.mem_mib is not None for one in own) else "memory unknown"
        yield ((f"{spans_of(gpus):<8}", "text bold"), (f"{memory:>11}  ", "text"), ("this server", "dim"))
    for one in sorted((one for one in holders if one.whose != "family"), key=lambda one: (one.gpu, one.pid)):
        whose = {"ours": "another of yours", "others": said(one.user or "somebody else"), "unknown": "unseen user"}[
            one.whose
        ]
        role = "others" if one.whose != "ours" else "warning"
        head: Line = (
            (f"{one.gpu:<8}", "text bold"), (f"{fmt.gib(one.mem_mib)} GiB".rjust(11) + "  ", "text"), ("▲ ", role),
            (cut(whose, max(8, min(USER_CELLS, width - 48))), role), (f"  pid {one.pid}  ", "dim"),
        )  # fmt: skip
        left = "left alone" if width_of(head) + len("left alone") <= width else ""
        command = cut(said(one.command), max(0, width - width_of(head) - len(left) - 2))
        yield (*head, (f"{command}  " if command else "", "text"), (left, "dim"))


def spans_of(numbers: Sequence[int]) -> str:
    """`0-7`, `0-3,6`."""
    out: list[str] = []
    for number in numbers:
        first, _, last = out[-1].partition("-") if out else ("", "", "")
        if out and int(last or first) == number - 1:
            out[-1] = f"{first}-{number}"
        else:
            out.append(str(number))
    return ",".join(out)


def _leftovers(plan: Plan, width: int, *, each: bool) -> Iterator[Line]:
    if plan.leftovers:
        size = sum(one.size for one in plan.leftovers) / (1 << 20)
        then = "removed after the stop" if plan.wish.remove_leftovers else "left there"
        files = fmt.plural(len(plan.leftovers), "file")
        yield from _wrapped(f"{files} of dead processes in /dev/shm, {size:.0f} MiB: {then}", "text", width)
        if not each:
            return
        for one in plan.leftovers[:SHOWN_ENTRIES]:
            yield ((cut(f"  {said(one.path)}  {said(one.why)}", width), "dim"),)
        if len(plan.leftovers) > SHOWN_ENTRIES:
            yield ((f"  … {len(plan.leftovers) - SHOWN_ENTRIES} more", "dim"),)


def _orphans(plan: Plan, width: int) -> Iterator[Line]:
    if plan.orphans:
        count = fmt.plural(len(plan.orphans), "process", "processes")
        text = f"{count} without a server, left alone here: o on the main screen lists them, and ends those you choose"
        yield from _wrapped(text, "warning", width)


def _checks(plan: Plan, shown: Shown, width: int, *, each: bool) -> Iterator[Line]:
    if shown.checking:
        yield ((f"checking on the node …{shown.waited}", "dim"),)
    if plan.checks is None:
        return
    order = {"fail": 0, "warn": 1, "unknown": 2, "ok": 3}
    passed = [one for one in plan.checks if one.result == "ok"]  # those that failed stand above all
    for one in sorted(plan.checks, key=lambda check: order[check.result]):
        if one.result == "fail" or (one.result == "ok" and not each):
            continue
        yield from check_rows(one, width)
    if passed and not each:
        names = " · ".join(said(one.id.replace(".", " ")) for one in passed)
        yield from _wrapped(names, "dim", width, 3, mark=("✓", "ok"))


def check_rows(check: Check, width: int) -> Iterator[Line]:
    """A check, and what to do."""
    sign, role = SIGNS[check.result]
    yield from _wrapped(check.text, "text" if check.result == "ok" else role, width, mark=(sign, role))
    if check.todo and check.result != "ok":
        yield from (((f"  {row[0][0]}", "text"),) for row in _wrapped(check.todo, "text", width - 2))


def _questions(questions: Sequence[Question], shown: Shown, width: int) -> Iterator[Line]:
    for at, one in enumerate(questions):
        now = shown.asking == at
        role = "text" if shown.asking is None else "warning bold" if now else "dim"
        mark = (
            ("▸", "warning") if now else ("✓", "ok") if shown.asking is not None and at < shown.asking else ("·", "dim")
        )
        yield from _wrapped(one.text, role, width, mark=mark)


def summary_words(plan: Plan | None, *, checking: bool) -> Line:
    """On the border: how the checks went."""
    if plan is None:
        return EMPTY
    if plan.refused:
        return (("not done", "error"),)
    if plan.checks is None:
        return (("checking …", "dim"),) if checking else EMPTY
    failed = sum(one.result == "fail" for one in plan.checks)
    doubtful = sum(one.result in ("warn", "unknown") for one in plan.checks)
    if failed:
        return ((f"{failed} of {fmt.plural(len(plan.checks), 'check')} failed", "error"),)
    if doubtful:
        return ((f"{doubtful} of {fmt.plural(len(plan.checks), 'check')} to look at", "warning"),)
    return ((f"{fmt.plural(len(plan.checks), 'check')} passed", "ok"),) if plan.checks else EMPTY
