r"""The named scripts that read a node, and the exact shape of what each prints. Parsers stand in the modules named beside each.

All are POSIX sh (bash, dash, busybox), start few programs, write nothing to the node, and take values as positional arguments only. No script sends
a signal (but `kept-log` to its own child, by the text that `signal` is made of): a stream ends because its stdin ends, because what keeps it ends
(`tail --pid` of the poller), or because its pipe is closed; and `timeout` ends it after its lease (LEASE, seconds), since a client that vanished closes
nothing.

processes              (processes.py)  one whole process table
    @sys\n boot_id\n CLK_TCK\n uptime seconds\n epoch seconds\n own uid\n own pid of this shell\n \0@stat\n  all /proc/PID/stat, concatenated
    \0@uid\n  lines /proc/PID/status:Uid:\treal\teffective\tsaved\tfs   \0@argv\n  then to the end: repeated  /proc/PID/cmdline \0 element \0
    (non-empty elements only).  comm may hold newlines; no part before @argv can hold a NUL, so \0@NAME\n cannot be forged.
details PID|uUID ...   (details.py)  what discovery needs of a few processes; every value that a user can choose is hex. uUID: only that user's name
    first:  listen PROTO LOCALHEX:PORTHEX UID INODE\n  (PROTO tcp|tcp6; state 0A of /proc/net/tcp*). Before the descriptors: a port that is opened
    meanwhile is not seen yet, instead of being nobody's
    for each pid:  pid N\n  argv HEX\n  cwd HEX\n  fd N HEX-of-link DEVICE INODE SIZE MTIME TYPE READABLE\n (N = 0 1 2, of a tee 0 to 9; "-" where
    unknown; TYPE regular|character|fifo|socket|directory|other; READABLE y|n)  sock INODE\n (one a socket it holds)   nofd\n (its descriptors cannot be
    read)   cgroup HEX\n (its control groups, where an output is a pipe, a socket or cannot be seen)
    at the end:  user UID NAME\n   done\n
poll LEASE             (poll.py)  answers requests on stdin until it ends; only builtins
    SEQ ping\n            -> SEQ pid PID\n (of the shell that answers), SEQ done\n
    SEQ look PID PATH/\n  -> SEQ file WORD POSITION\n, SEQ done\n.  Is PATH (any bytes but newline) the file that process PID (a `follow`) reads? WORD:
                             same, other, missing (nothing has that name), gone (no such process). POSITION: the offset up to which it was read, "-" unknown
    SEQ family PID ...\n  -> SEQ stat LINE\n for each that lives (its /proc/PID/stat up to the first newline), SEQ done\n
    SEQ all\n             -> SEQ pids PID PID ...\n, SEQ stat LINE\n for each not seen by an earlier `all`, SEQ done\n
    SEQ io PID ...\n      -> SEQ io PID READ ASKED\n for each whose counters this login may read (/proc/PID/io: read_bytes, rchar), SEQ done\n
    SEQ machine\n         -> SEQ machine BOOT ID HOST\n ("-" where unknown; boot_id, /etc/machine-id, the kernel's host name), SEQ done\n
follow PATH FROM KEEPER LEASE   (follow.py)  follows a file by descriptor: FROM is a byte offset from 1 ("+1"), or "-N" for its last N bytes
    first line:  file DEVICE INODE SIZE MTIME START PID\n   (START: the 0-based offset at which what follows begins; PID: whose descriptor 3 is the file), then
    raw bytes until process KEEPER (a poller) ends. KEEPER 0, or a tail that cannot watch one: until stdin ends, LEASE seconds at most.
    Where the file is cut GNU tail says so in the midst of the bytes:  tail: 'standard input': file truncated\n
    exit 3: no such file, 4: not readable, 5: not a regular file (the sentence on stderr); 2: a number that is none
read-range PATH OFFSET LENGTH   (follow.py)  the same first line (PID 0), then at most LENGTH bytes from the 0-based OFFSET
measure PATH                    (follow.py)  the same first line; START: how many NUL bytes the file begins with (a hole left by cutting it under its writer)
launch-offset PATH BEGIN LIMIT  (follow.py)  OFFSET\n of the last "server_args=" (SGLang) or "vLLM API server version" in the last LIMIT bytes of the
    file, else in its first 4 MiB, not before BEGIN (absolute, 0-based)
kept-log KIND NAME SINCE LEASE  (kept.py)  the log that somebody keeps for a process, until stdin ends. KIND docker, podman, nerdctl: its `logs
    --timestamps`; unit, user-unit: journalctl, a JSON object a line with __CURSOR and MESSAGE. SINCE: a time or a cursor of a line that came before,
    or empty for the last 20,000 lines. Anything else is what the tool complains of. 127: there is no such tool (the sentence on stderr)
run-tool SECONDS ARGV...        a read-only program with a deadline: its stdout, stderr and exit status; 127 not found, 124 ended by the deadline
loop-tool LEASE ARGV...         a read-only program that prints for ever (`nvidia-smi -l 1`): it ends when nobody reads it any more, or after its lease
http-get HOST PORT PATH SECONDS (fetch.py)  one GET by curl or GNU wget on the node: no proxy, no rc file, no redirect followed
    stdout: the body, at most 4 MiB.  stderr:  TOOL STATUS SAID\n  (STATUS: the tool's exit status; SAID: curl's "CODE SECONDS", wget's messages)
    exit 0 whatever came; 2: an argument that is no address, path or number; 127: neither curl nor wget
kernel-log             (kernel.py)  the kernel's own messages of kills, faults and GPUs: the last 200 of dmesg's, else of journalctl's
    @uptime SECONDS\n, then lines "[SECONDS] TEXT" as the tool prints them, and what it complains of;  @ended TOOL STATUS\n after each tool that was tried
    (127: it is not there)
oom-count PID|VERSION/PATH   (kernel.py)  how often the kernel killed for memory in a process's control group, or in one that an earlier answer named
    cgroup VERSION/PATH as hex\n  oom_kill N\n  limit BYTES|max\n.  Nothing where there is none; VERSION 1 or 2; 2: an argument that is none
"""

from __future__ import annotations

from eagletui.shell.fragments import SEND
from eagletui.shell.script import Script

LEASE_S = 900
"""How long a stream lives on the node at most before it is opened anew: a client that vanished (a closed laptop lid sends no FIN) leaves nothing for longer."""

PROCESSES = Script(
    "processes",
    r"""
boot=-; read -r boot </proc/sys/kernel/random/boot_id 2>/dev/null
up=-; read -r up rest </proc/uptime 2>/dev/null
printf '@sys\n%s\n%s\n%s\n%s\n%s\n%s\n' "$boot" "$(getconf CLK_TCK 2>/dev/null || echo 100)" "$up" "$(date +%s)" "$(id -u)" "$$"
printf '\0@stat\n'; cat /proc/[0-9]*/stat 2>/dev/null
printf '\0@uid\n'; grep -H '^Uid:' /proc/[0-9]*/status 2>/dev/null
printf '\0@argv\n'
if grep -aHZz . /proc/self/cmdline >/dev/null 2>&1; then
grep -aHZz . /proc/[0-9]*/cmdline 2>/dev/null
else
for f in /proc/[0-9]*/cmdline; do
tr '\0' '\n' <"$f" 2>/dev/null | while IFS= read -r a; do [ -n "$a" ] && printf '%s\0%s\0' "$f" "$a"; done
done
fi
exit 0
""",
)

DETAILS = Script(
    "details",
    r"""
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
uids=' '
for f in tcp tcp6; do
while read -r sl local remote st q tr ret uid to inode rest; do
case $st in 0A) printf 'listen %s %s %s %s\n' "$f" "$local" "$uid" "$inode";; esac
done <"/proc/net/$f" 2>/dev/null
done
for p in "$@"; do
case $p in
u[0-9]*) u=${p#u}; case $u in *[!0-9]*) ;; *) case $uids in *" $u "*) ;; *) uids="$uids$u ";; esac;; esac; continue;;
''|*[!0-9]*) continue;;
esac
[ -d "/proc/$p" ] || continue
printf 'pid %s\nargv %s\ncwd %s\n' "$p" "$(cat "/proc/$p/cmdline" 2>/dev/null | hex)" "$(readlink -n "/proc/$p/cwd" 2>/dev/null | hex)"
if ls "/proc/$p/fd" >/dev/null 2>&1; then
c=; read -r c <"/proc/$p/comm" 2>/dev/null
case $c in tee) ns='0 1 2 3 4 5 6 7 8 9';; *) ns='0 1 2';; esac
piped=
for n in $ns; do
l=$(readlink "/proc/$p/fd/$n" 2>/dev/null) || continue
s=$(stat -L -c '%d %i %s %Y' "/proc/$p/fd/$n" 2>/dev/null) || s='- - - -'
if [ -f "/proc/$p/fd/$n" ]; then t=regular; elif [ -c "/proc/$p/fd/$n" ]; then t=character; elif [ -p "/proc/$p/fd/$n" ]; then t=fifo
elif [ -S "/proc/$p/fd/$n" ]; then t=socket; elif [ -d "/proc/$p/fd/$n" ]; then t=directory; else t=other; fi
if [ -r "/proc/$p/fd/$n" ]; then r=y; else r=n; fi
case $n$t in [12]fifo|[12]socket) piped=y;; esac
printf 'fd %s %s %s %s %s\n' "$n" "$(printf '%s' "$l" | hex)" "$s" "$t" "$r"
done
ls -l "/proc/$p/fd" 2>/dev/null | sed -n 's/.* -> socket:\[\([0-9]*\)\]$/sock \1/p'
else
printf 'nofd\n'; piped=y
fi
[ -n "$piped" ] && printf 'cgroup %s\n' "$(head -c 4096 "/proc/$p/cgroup" 2>/dev/null | hex)"
while read -r k u rest; do case $k in Uid:) case $uids in *" $u "*) ;; *) uids="$uids$u ";; esac;; esac; done <"/proc/$p/status" 2>/dev/null
done
for u in $uids; do
n=$(getent passwd "$u" 2>/dev/null) || n=$(grep "^[^:]*:[^:]*:$u:" /etc/passwd 2>/dev/null)
printf 'user %s %s\n' "$u" "${n%%:*}"
done
printf 'done\n'
exit 0
""",
)

POLL = Script(
    "poll",
    r"""
eagletui_poll='
known=" "
while IFS=" " read -r seq verb rest; do
case $verb in
ping) printf "%s pid %s\n" "$seq" "$$";;
look)
p=${rest%% *}; f=${rest#* }; f=${f%/}; at=-
if [ ! -e "/proc/$p/fd/3" ]; then w=gone; elif [ "$f" -ef "/proc/$p/fd/3" ]; then w=same; elif [ -e "$f" ]; then w=other; else w=missing; fi
while read -r k v; do case $k in pos:) at=$v;; esac; done 2>/dev/null <"/proc/$p/fdinfo/3"
printf "%s file %s %s\n" "$seq" "$w" "$at";;
family)
for p in $rest; do
case $p in ""|*[!0-9]*) continue;; esac
if IFS= read -r line 2>/dev/null <"/proc/$p/stat"; then printf "%s stat %s\n" "$seq" "$line"; fi
done 2>/dev/null;;
all)
now=" "; new=" "
for d in /proc/[0-9]*; do
p=${d#/proc/}; now="$now$p "
case $known in *" $p "*) ;; *) new="$new$p ";; esac
done
printf "%s pids%s\n" "$seq" "${now% }"
for p in $new; do
if IFS= read -r line 2>/dev/null <"/proc/$p/stat"; then printf "%s stat %s\n" "$seq" "$line"; fi
done 2>/dev/null
known=$now;;
io)
for p in $rest; do
case $p in ""|*[!0-9]*) continue;; esac
got=; asked=
while read -r k v; do case $k in rchar:) asked=$v;; read_bytes:) got=$v;; esac; done 2>/dev/null <"/proc/$p/io"
case $got$asked in ""|*[!0-9]*) ;; *) printf "%s io %s %s %s\n" "$seq" "$p" "${got:--}" "${asked:--}";; esac
done 2>/dev/null;;
machine)
boot=; id=; host=
read -r boot v 2>/dev/null </proc/sys/kernel/random/boot_id
read -r id v 2>/dev/null </etc/machine-id
read -r host v 2>/dev/null </proc/sys/kernel/hostname
printf "%s machine %s %s %s\n" "$seq" "${boot:--}" "${id:--}" "${host:--}";;
esac
printf "%s done\n" "$seq"
done
exit 0
'
if timeout 1 true >/dev/null 2>&1; then exec timeout "${1:-900}" sh -c "$eagletui_poll" poll; fi
exec sh -c "$eagletui_poll" poll
""",
)

# Numbers are looked at first: bash would run a command that stands in the subscript of one ("a[$(command)]").
_FILE_HEAD = r"""
path=$1; first=${2:-0}; second=${3:-0}; third=${4:-0}
for n in "$first" "$second" "$third"; do
case ${n#[-+]} in ''|*[!0-9]*) printf '%s\n' "not a number" >&2; exit 2;; esac
done
if [ ! -e "$path" ]; then
d=$path
while :; do
case $d in */*) d=${d%/*};; *) d=.;; esac
if [ -z "$d" ] || [ -e "$d" ]; then break; fi
done
if [ -d "${d:-/}" ] && [ ! -x "${d:-/}" ]; then printf '%s\n' "permission denied" >&2; exit 4; fi
printf '%s\n' "no such file" >&2; exit 3
fi
[ -f "$path" ] || { printf '%s\n' "not a regular file" >&2; exit 5; }
[ -r "$path" ] || { printf '%s\n' "permission denied" >&2; exit 4; }
exec 3<"$path" || exit 4
set -- $(stat -L -c '%d %i %s %Y' /proc/self/fd/3 2>/dev/null || echo '- - 0 0')
size=$3
"""

FOLLOW = Script(
    "follow",
    _FILE_HEAD
    + r"""
case $first in
-*) n=${first#-}; if [ "$size" -gt "$n" ]; then start=$((size - n)); else start=0; fi;;
*) start=$((${first#+} - 1));;
esac
printf 'file %s %s %s %s %s %s\n' "$@" "$start" "$$"
set -- -c +$((start + 1)) -f
if tail --pid=$$ -c 0 /dev/null >/dev/null 2>&1; then
[ "$second" -gt 0 ] && exec tail --pid="$second" -s 0.025 "$@" <&3 2>&1
set -- --pid=$$ -s 0.025 "$@"
fi
timed=
timeout 1 true >/dev/null 2>&1 && timed="timeout $third"
$timed tail "$@" <&3 2>&1 &
exec >/dev/null 2>&1
$timed cat
exit 0
""",
)

READ_RANGE = Script(
    "read-range",
    _FILE_HEAD
    + r"""
printf 'file %s %s %s %s %s 0\n' "$@" "$first"
tail -c +$((first + 1)) <&3 2>/dev/null | head -c "$second"
exit 0
""",
)

MEASURE = Script(
    "measure",
    _FILE_HEAD
    + r"""
hole=0
case $(head -c 1 <&3 | od -An -v -tx1 2>/dev/null) in *00*)
if command -v cmp >/dev/null 2>&1; then
hole=$(cmp /dev/zero /proc/self/fd/3 2>/dev/null)
hole=${hole%,*}; hole=${hole##* }
case $hole in ''|*[!0-9]*) hole=$size;; *) hole=$((hole - 1));; esac
fi;;
esac
printf 'file %s %s %s %s %s 0\n' "$@" "$hole"
exit 0
""",
)

LAUNCH_OFFSET = Script(
    "launch-offset",
    _FILE_HEAD
    + r"""
if [ "$size" -gt "$second" ]; then base=$((size - second)); else base=0; fi
if [ "$first" -gt "$base" ]; then base=$first; fi
# A hole of NULs would be one line of gigabytes to grep, which holds a line whole; bars end with CR only.
last() { tr '\000\r' '\n\n' 2>/dev/null | grep -abo -e 'server_args=' -e 'vLLM API server version' 2>/dev/null | tail -n 1; }
at=$(tail -c +$((base + 1)) <&3 2>/dev/null | last)
if [ -z "$at" ] && [ "$base" -gt "$first" ]; then
base=$first
at=$(tail -c +$((base + 1)) /proc/self/fd/3 2>/dev/null | head -c 4194304 | last)
fi
at=${at%%:*}
[ -n "$at" ] && printf '%s\n' "$((base + at))"
exit 0
""",
)

KEPT_LOG = Script(
    "kept-log",
    SEND
    + r"""
since=$3; timed=
timeout 1 true >/dev/null 2>&1 && timed="timeout $4"
case $1 in
docker|podman|nerdctl)
command -v "$1" >/dev/null 2>&1 || { printf '%s\n' "this login has no $1" >&2; exit 127; }
if [ -n "$since" ]; then set -- "$1" logs --follow --timestamps --since "$since" "$2"
else set -- "$1" logs --follow --timestamps --tail 20000 "$2"; fi;;
unit|user-unit)
command -v journalctl >/dev/null 2>&1 || { printf '%s\n' "this login has no journalctl" >&2; exit 127; }
set -- journalctl --follow --output=json --output-fields=MESSAGE "--$1=$2"
if [ -n "$since" ]; then set -- "$@" --no-tail "--after-cursor=$since"; else set -- "$@" --lines=20000; fi;;
*) printf '%s\n' "nobody keeps such a log" >&2; exit 2;;
esac
$timed "$@" </dev/null 2>&1 &
reader=$!; started=
stat_of "$reader" && [ "$stat_parent" = "$$" ] && started=$stat_started
exec >/dev/null
$timed cat
# It may have ended long ago, and its number be somebody else's: `send` looks.
send_prepare
send TERM "$reader" "$started"
exit 0
""",
)

RUN_TOOL = Script(
    "run-tool",
    r"""
s=$1; shift
command -v "$1" >/dev/null 2>&1 || { printf '%s: not found\n' "$1" >&2; exit 127; }
if command -v timeout >/dev/null 2>&1; then exec timeout -k 1 "$s" "$@" </dev/null; fi
exec "$@" </dev/null
""",
)

LOOP_TOOL = Script(
    "loop-tool",
    r"""
s=$1; shift
command -v "$1" >/dev/null 2>&1 || { printf '%s: not found\n' "$1" >&2; exit 127; }
if timeout --foreground 1 true >/dev/null 2>&1; then exec timeout --foreground -k 1 "$s" "$@" </dev/null; fi
if timeout 1 true >/dev/null 2>&1; then exec timeout "$s" "$@" </dev/null; fi
exec "$@" </dev/null
""",
)

HTTP_GET = Script(
    "http-get",
    r"""
refuse() { printf '%s\n' 'not an address' >&2; exit 2; }
case $1 in ''|-*|*[!0-9A-Za-z.:-]*) refuse;; esac
case $3 in /*) ;; *) refuse;; esac
case $3 in *[!0-9A-Za-z/._~%?=\&+,:@-]*) refuse;; esac
for n in "$2" "$4"; do case $n in ''|0*|*[!0-9]*|??????*) refuse;; esac; done
case $4 in ????*) refuse;; esac
case $1 in *:*) url="http://[$1]:$2$3";; *) url="http://$1:$2$3";; esac
if command -v curl >/dev/null 2>&1; then tool=curl; elif command -v wget >/dev/null 2>&1; then tool=wget
else printf '%s\n' 'curl: not found' >&2; exit 127; fi
if command -v timeout >/dev/null 2>&1; then ends="timeout $(($4 + 1))"; else ends=; fi
{
if [ $tool = curl ]; then
said=$($ends curl -q -s -g --noproxy '*' --proto =http --max-redirs 0 -A eagletui -m "$4" -w '%{http_code} %{time_total}' \
-o /proc/self/fd/3 "$url" 2>/dev/null)
else
said=$($ends wget --no-config -nv -S -O - --no-proxy --no-netrc -t 1 -T "$4" --max-redirect=0 --content-on-error -U eagletui "$url" 2>&1 >&3)
fi
printf '%s %s %s\n' $tool $? "$said" >&2
} 3>&1 >/dev/null </dev/null | head -c 4194304
exit 0
""",
)

KERNEL_LOG = Script(
    "kernel-log",
    r"""
timed=; timeout 1 true >/dev/null 2>&1 && timed='timeout 5'
up=-; read -r up rest </proc/uptime 2>/dev/null
printf '@uptime %s\n' "$up"
{
status=127
command -v dmesg >/dev/null 2>&1 && { $timed dmesg; status=$?; }
printf '\n@ended dmesg %s\n' "$status"
if [ "$status" -ne 0 ]; then
status=127
command -v journalctl >/dev/null 2>&1 && { $timed journalctl --dmesg --boot --no-pager --output=short-monotonic --lines=20000; status=$?; }
printf '\n@ended journalctl %s\n' "$status"
fi
} </dev/null 2>&1 | grep -aiE -e '^@ended |^(dmesg|journalctl|hint|no journal|failed)' \
-e 'illed process|ill process [0-9]|nvrm: xid|segfault at|traps: ' | tail -n 200 | cut -b 1-1000
exit 0
""",
)

OOM_COUNT = Script(
    "oom-count",
    r"""
one=; two=
case ${1:-} in
1/*) one=${1#1};;
2/*) two=${1#2};;
''|*[!0-9]*) printf '%s\n' 'not a process' >&2; exit 2;;
*)
while IFS= read -r line; do
names=${line#*:}; names=${names%%:*}
case ,$names, in
,,) two=${line#*:*:};;
*,memory,*) one=${line#*:*:};;
esac
done 2>/dev/null <"/proc/$1/cgroup";;
esac
count() {
version=$1; root=$2; at=$3; name=$4; limit=$5
while [ -n "$at" ]; do
if [ -r "$root$at/$name" ]; then
while read -r key value; do
case $key in oom_kill)
printf 'cgroup %s\noom_kill %s\n' "$(printf '%s' "$version$at" | od -An -v -tx1 | tr -d ' \n')" "$value"
read -r most <"$root$at/$limit" && printf 'limit %s\n' "$most";;
esac
done 2>/dev/null <"$root$at/$name"
exit 0
fi
case $at in /) at=;; *) at=${at%/*}; at=${at:-/};; esac
done
}
count 2 /sys/fs/cgroup "$two" memory.events memory.max
count 1 /sys/fs/cgroup/memory "$one" memory.oom_control memory.limit_in_bytes
exit 0
""",
)

SCRIPTS: dict[str, Script] = {
    s.name: s
    for s in (
        PROCESSES,
        DETAILS,
        POLL,
        FOLLOW,
        READ_RANGE,
        MEASURE,
        LAUNCH_OFFSET,
        KEPT_LOG,
        RUN_TOOL,
        LOOP_TOOL,
        HTTP_GET,
        KERNEL_LOG,
        OOM_COUNT,
    )
}
"""Every script by name; a simulated node answers by these names, and tests run each of them."""
