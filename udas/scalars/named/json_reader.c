/* Reads the parts of a JSON text; growing byte buffers. */
#include "preparation.h"

#include <stdlib.h>
#include <string.h>

bool tusk_add(tusk_bytes *b, const void *data, size_t n) {
    if (b->n + n > b->room) {
        size_t room = (b->n + n) * 2 + 64;
        char *more = realloc(b->data, room);
        if (!more)
            return false;
        b->data = more;
        b->room = room;
    }
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
    return true;
}

static void skip_spaces(json_reader *r) {
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4))
        r->at++;
}

bool json_take(json_reader *r, char c) {
    skip_spaces(r);
    if (r->failed || r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

void json_need(json_reader *r, char c) {
    r->failed |= !json_take(r, c);
}

/* The code point of four hexadecimal digits. */
static unsigned read_hex(json_reader *r) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        char c = r->at < r->end ? *r->at++ : 0;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        r->failed |= digit > 15;
        code = code * 16 + digit;
    }
    return code;
}

static bool add_utf8(tusk_bytes *out, unsigned code) {
    char text[4];
    if (code < 0x80)
        return text[0] = (char)code, tusk_add(out, text, 1);
    if (code < 0x800) {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 0x3f));
        return tusk_add(out, text, 2);
    }
    if (code < 0x10000) {
        text[0] = (char)(0xe0 | code >> 12);
        text[1] = (char)(0x80 | (code >> 6 & 0x3f));
        text[2] = (char)(0x80 | (code & 0x3f));
        return tusk_add(out, text, 3);
    }
    text[0] = (char)(0xf0 | code >> 18);
    text[1] = (char)(0x80 | (code >> 12 & 0x3f));
    text[2] = (char)(0x80 | (code >> 6 & 0x3f));
    text[3] = (char)(0x80 | (code & 0x3f));
    return tusk_add(out, text, 4);
}

static bool read_escape(json_reader *r, tusk_bytes *out) {
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *found = c ? strchr(FROM, c) : NULL;
    if (found)
        return tusk_add(out, TO + (found - FROM), 1);
    if (c != 'u')
        return false;
    unsigned code = read_hex(r);
    if (code >= 0xd800 && code < 0xdc00 && r->end - r->at > 1 && r->at[0] == '\\' &&
        r->at[1] == 'u') {
        r->at += 2;
        unsigned low = read_hex(r);
        code = 0x10000 + ((code - 0xd800) << 10) + ((low - 0xdc00) & 0x3ff);
    }
    return !r->failed && code && add_utf8(out, code);
}

/* Appends the decoded text of a string. */
void json_string(json_reader *r, tusk_bytes *out) {
    json_need(r, '"');
    while (!r->failed && r->at < r->end && *r->at != '"') {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\')
            r->at++;
        r->failed |= !tusk_add(out, plain, (size_t)(r->at - plain));
        if (r->at < r->end && *r->at == '\\') {
            r->at++;
            r->failed |= !read_escape(r, out);
        }
    }
    json_need(r, '"');
}

/* Reads a short string, such as a key. */
void json_word(json_reader *r, char word[32]) {
    tusk_bytes text = {0};
    json_string(r, &text);
    size_t n = text.n < 31 ? text.n : 31;
    if (n)
        memcpy(word, text.data, n);
    word[n] = 0;
    free(text.data);
}

double json_number(json_reader *r) {
    char text[64];
    size_t n = 0;
    skip_spaces(r);
    while (r->at < r->end && n < sizeof text - 1 && memchr("0123456789+-.eE", *r->at, 15))
        text[n++] = *r->at++;
    text[n] = 0;
    char *end;
    double x = strtod(text, &end);
    r->failed |= !n || *end;
    return x;
}

bool json_truth(json_reader *r) {
    skip_spaces(r);
    bool truth = r->end - r->at >= 4 && memcmp(r->at, "true", 4) == 0;
    bool lie = !truth && r->end - r->at >= 5 && memcmp(r->at, "false", 5) == 0;
    r->failed |= !truth && !lie;
    if (!r->failed)
        r->at += truth ? 4 : 5;
    return truth;
}
