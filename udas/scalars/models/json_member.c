#include "json_member.h"

#include <string.h>

typedef struct scan {
    const char *at, *end;
} scan;

static void skip_spaces(scan *s) {
    while (s->at < s->end && memchr(" \t\r\n", *s->at, 4))
        s->at++;
}

static bool take(scan *s, char c) {
    skip_spaces(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* Reads the inside of a string. */
static bool take_string(scan *s, tusk_text *inside) {
    if (!take(s, '"'))
        return false;
    const char *begin = s->at;
    for (; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\' && ++s->at == s->end)
            return false;
    if (s->at == s->end)
        return false;
    *inside = (tusk_text){begin, (size_t)(s->at++ - begin)};
    return true;
}

/* Reads a list, an object, a number or a word, up to its end at this depth. */
static bool take_other(scan *s, tusk_text *value) {
    const char *begin = s->at;
    tusk_text inside;
    for (int64_t depth = 0; s->at < s->end;) {
        char c = *s->at;
        if (c == '"') {
            if (!take_string(s, &inside))
                return false;
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']'))
            break;
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        s->at++;
    }
    const char *end = s->at;
    while (end > begin && memchr(" \t\r\n", end[-1], 4))
        end--;
    *value = (tusk_text){begin, (size_t)(end - begin)};
    return s->at < s->end && end > begin;
}

static bool take_value(scan *s, tusk_text *value) {
    skip_spaces(s);
    return s->at < s->end && *s->at == '"' ? take_string(s, value) : take_other(s, value);
}

tusk_text tusk_json_member(tusk_text json, const char *name) {
    tusk_text key, value, found = {NULL, 0};
    scan s = {json.data, json.data ? json.data + json.length : NULL};
    if (!take(&s, '{'))
        return found;
    do {
        if (!take_string(&s, &key) || !take(&s, ':') || !take_value(&s, &value))
            break;
        if (key.length == strlen(name) && memcmp(key.data, name, key.length) == 0)
            found = value;
    } while (take(&s, ','));
    return take(&s, '}') ? found : (tusk_text){NULL, 0};
}

static bool is_one_of(tusk_text key, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (key.length == strlen(names[i]) && memcmp(key.data, names[i], key.length) == 0)
            return true;
    return false;
}

bool tusk_json_has_only(tusk_text json, const char *const *names, size_t n) {
    tusk_text key, value;
    scan s = {json.data, json.data ? json.data + json.length : NULL};
    skip_spaces(&s);
    if (s.at == s.end)
        return true;
    if (!take(&s, '{'))
        return false;
    if (take(&s, '}'))
        return true;
    do {
        if (!take_string(&s, &key) || !take(&s, ':') || !take_value(&s, &value))
            return false;
        if (!is_one_of(key, names, n) || (value.length && strchr("[{", *value.data)))
            return false;
    } while (take(&s, ','));
    return take(&s, '}');
}
