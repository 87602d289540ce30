# Writes out the overloads of functions. A statement whose first line has alternatives, as in `{real|text}`, stands
# for a statement with each of them, or with each combination. Alternatives after the same number, as in
# `{1:anyarray|record}` and `{1:dense|row}`, are taken together, and `{1}` repeats the first ones.

function write(text,    begin, end, inner, digit, alternatives, n, i, rest) {
    if (!match(text, /[{][^{}]*[|][^{}]*[}]/)) {
        print text
        return
    }
    begin = RSTART
    end = RSTART + RLENGTH
    inner = substr(text, begin + 1, RLENGTH - 2)
    digit = inner ~ /^[0-9]:/ ? substr(inner, 1, 1) : ""
    n = divide(digit == "" ? inner : substr(inner, 3), alternatives)
    for (i = 1; i <= n; i++) {
        rest = substr(text, end)
        write(substr(text, 1, begin - 1) alternatives[i] (digit == "" ? rest : linked(rest, digit, i, alternatives[i])))
    }
}

# Splits alternatives, in which a line may break; returns their number.
function divide(text, alternatives) {
    gsub(/\n */, "", text)
    return split(text, alternatives, "|")
}

# The text with the i-th of the alternatives after a digit, or with the first ones' where it only repeats them.
function linked(text, digit, i, first,    begin, rest, alternatives) {
    if (!match(text, "[{]" digit "(:[^{}]*)?[}]")) {
        return text
    }
    begin = RSTART
    rest = substr(text, RSTART + RLENGTH)
    alternatives[i] = first
    if (RLENGTH > 3) {
        divide(substr(text, begin + 3, RLENGTH - 4), alternatives)
    }
    return substr(text, 1, begin - 1) alternatives[i] linked(rest, digit, i, first)
}

statement != "" || /^(CREATE|REVOKE) .*[{][^{}]*[|]/ {
    statement = statement == "" ? $0 : statement "\n" $0
    if (/;$/) {
        write(statement)
        statement = ""
    }
    next
}
{ print }
END {
    if (statement != "") {
        print "overloads.awk: this statement has no end: " statement > "/dev/stderr"
        exit 1
    }
}
