#!/usr/bin/env bash
# Prints how many lines of code each room has, without blank lines, at one commit or at several side by side:
#
#   benches/lines.sh 899b9eb HEAD
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- HEAD
for commit in "$@"; do
    git grep -c '[^[:space:]]' "$commit" -- '*.rs' '*.el'
done | awk -F: -v commits="$*" '
    {
        room = $2
        if (room ~ /^src\//) { sub(/^src\//, "", room); sub(/[\/.].*/, "", room); room = "src/" room; src[$1] += $3 }
        else if (room ~ /^emacs\/.*\//) room = "emacs: tests, benches"
        else sub(/\/.*/, "", room)
        if (room == "src/lib" || room == "src/main") room = "src/lib, src/main"
        lines[room, $1] += $3; all["all", $1] += $3; all["all of src", $1] = src[$1]
        rooms[room]
    }
    function row(name, of,    at, text) {
        text = "| " name " |"
        for (at = 1; at <= count; at++) text = text " " of[name, names[at]] " |"
        return text
    }
    END {
        count = split(commits, names, " ")
        text = "| room |"; rule = "|---|"
        for (at = 1; at <= count; at++) { text = text " " names[at] " |"; rule = rule "---:|" }
        print text; print rule
        fflush()
        for (room in rooms) print row(room, lines) | "sort"
        close("sort")
        print row("all of src", all); print row("all", all)
    }'
