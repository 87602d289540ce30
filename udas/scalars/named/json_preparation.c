/* Reads the JSON of a preparation, and writes what payloads have of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/text_hash.h"
#include "preparation.h"

/* Bytes that grow. */
typedef struct bytes {
    char *data;
    size_t n, room;
} bytes;

/* One column while it is read. */
typedef struct read_column {
    tusk_preparation_column record;
    bytes name, text, fill;
    bytes ends; /* uint32_t */
    bool number_fill, has_indicator, has_other, has_missing;
} read_column;

typedef struct reader {
    const char *at, *end;
    bool failed;
    tusk_preparation_head head;
    read_column *column;
    size_t room;
} reader;

static bool add(bytes *b, const void *data, size_t n) {
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

/* --- JSON --- */

static void skip_spaces(reader *r) {
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4))
        r->at++;
}

static bool take(reader *r, char c) {
    skip_spaces(r);
    if (r->failed || r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static void need(reader *r, char c) {
    r->failed |= !take(r, c);
}

/* The code point of four hexadecimal digits. */
static unsigned read_hex(reader *r) {
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

static bool add_utf8(bytes *out, unsigned code) {
    char text[4];
    if (code < 0x80)
        return text[0] = (char)code, add(out, text, 1);
    if (code < 0x800) {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 0x3f));
        return add(out, text, 2);
    }
    if (code < 0x10000) {
        text[0] = (char)(0xe0 | code >> 12);
        text[1] = (char)(0x80 | (code >> 6 & 0x3f));
        text[2] = (char)(0x80 | (code & 0x3f));
        return add(out, text, 3);
    }
    text[0] = (char)(0xf0 | code >> 18);
    text[1] = (char)(0x80 | (code >> 12 & 0x3f));
    text[2] = (char)(0x80 | (code >> 6 & 0x3f));
    text[3] = (char)(0x80 | (code & 0x3f));
    return add(out, text, 4);
}

static bool read_escape(reader *r, bytes *out) {
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *found = c ? strchr(FROM, c) : NULL;
    if (found)
        return add(out, TO + (found - FROM), 1);
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
static void read_string(reader *r, bytes *out) {
    need(r, '"');
    while (!r->failed && r->at < r->end && *r->at != '"') {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\')
            r->at++;
        r->failed |= !add(out, plain, (size_t)(r->at - plain));
        if (r->at < r->end && *r->at == '\\') {
            r->at++;
            r->failed |= !read_escape(r, out);
        }
    }
    need(r, '"');
}

/* Reads a short string, such as a key. */
static void read_word(reader *r, char word[32]) {
    bytes text = {0};
    read_string(r, &text);
    size_t n = text.n < 31 ? text.n : 31;
    if (n)
        memcpy(word, text.data, n);
    word[n] = 0;
    free(text.data);
}

static double read_number(reader *r) {
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

static bool read_truth(reader *r) {
    skip_spaces(r);
    bool truth = r->end - r->at >= 4 && memcmp(r->at, "true", 4) == 0;
    bool lie = !truth && r->end - r->at >= 5 && memcmp(r->at, "false", 5) == 0;
    r->failed |= !truth && !lie;
    if (!r->failed)
        r->at += truth ? 4 : 5;
    return truth;
}

/* --- the members --- */

static void read_levels(reader *r, read_column *c) {
    need(r, '[');
    if (take(r, ']'))
        return;
    do {
        read_string(r, &c->text);
        uint32_t end = (uint32_t)c->text.n;
        r->failed |= c->text.n > UINT32_MAX / 2 || !add(&c->ends, &end, sizeof end);
        c->record.n_levels++;
    } while (take(r, ','));
    need(r, ']');
}

static void read_fill(reader *r, read_column *c) {
    skip_spaces(r);
    if (r->at < r->end && *r->at == '"') {
        read_string(r, &c->fill);
        r->failed |= !add(&c->fill, "", 1);
        return;
    }
    c->record.fill = read_number(r);
    c->number_fill = true;
}

static void read_member(reader *r, read_column *c) {
    char key[32], word[32];
    read_word(r, key);
    need(r, ':');
    if (r->failed)
        return;
    if (strcmp(key, "name") == 0) {
        read_string(r, &c->name);
    } else if (strcmp(key, "kind") == 0) {
        read_word(r, word);
        c->record.category = strcmp(word, "category") == 0;
        r->failed |= !c->record.category && strcmp(word, "number") != 0;
    } else if (strcmp(key, "levels") == 0) {
        read_levels(r, c);
    } else if (strcmp(key, "fill") == 0) {
        read_fill(r, c);
    } else {
        bool truth = read_truth(r);
        if (strcmp(key, "reference") == 0)
            c->record.reference = truth;
        else if (strcmp(key, "other") == 0)
            c->has_other = truth;
        else if (strcmp(key, "missing") == 0)
            c->has_missing = truth;
        else if (strcmp(key, "indicator") == 0)
            c->has_indicator = truth;
        else
            r->failed = true;
    }
}

static read_column *next_column(reader *r) {
    if (r->head.n_columns == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        read_column *more = realloc(r->column, room * sizeof *more);
        if (!more)
            return NULL;
        r->column = more;
        r->room = room;
    }
    read_column *c = r->column + r->head.n_columns++;
    memset(c, 0, sizeof *c);
    return c;
}

static void read_columns(reader *r) {
    need(r, '[');
    do {
        read_column *c = next_column(r);
        r->failed |= !c;
        need(r, '{');
        if (r->failed)
            return;
        do
            read_member(r, c);
        while (take(r, ','));
        need(r, '}');
        r->failed |= c->record.reference && !c->record.n_levels;
    } while (take(r, ','));
    need(r, ']');
}

static void read_missing(reader *r) {
    static const char *const NAMES[] = {"skip", "impute", "level", "error"};
    char word[32];
    read_word(r, word);
    r->head.missing = 4;
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(word, NAMES[i]) == 0)
            r->head.missing = i;
    r->failed |= r->head.missing == 4;
}

static void read_whole(reader *r) {
    char key[32], word[32];
    need(r, '{');
    do {
        read_word(r, key);
        need(r, ':');
        if (strcmp(key, "version") == 0) {
            r->head.version = read_number(r) == 1;
        } else if (strcmp(key, "missing") == 0) {
            read_missing(r);
        } else if (strcmp(key, "unseen") == 0) {
            read_word(r, word);
            r->head.refuse_unseen = strcmp(word, "error") == 0;
        } else if (strcmp(key, "columns") == 0 && !r->column) {
            read_columns(r);
        } else {
            r->failed = true;
        }
    } while (take(r, ','));
    need(r, '}');
    r->failed |= !r->head.version || !r->column;
}

/* --- the bytes --- */

/* Features follow each other in the order of the columns. */
static int32_t place_features(read_column *c, int32_t next) {
    tusk_preparation_column *p = &c->record;
    p->other = p->missing = p->indicator = p->fill_feature = -1;
    p->first = next;
    next += p->category ? (int32_t)p->n_levels - (int32_t)p->reference : 1;
    if (c->has_other)
        p->other = next++;
    if (c->has_missing)
        p->missing = next++;
    if (c->has_indicator)
        p->indicator = next++;
    const uint32_t *ends = (const uint32_t *)(const void *)c->ends.data;
    for (uint32_t k = 0; c->fill.n && k < p->n_levels; k++) {
        uint32_t begin = k ? ends[k - 1] : 0;
        bool same = c->fill.n - 1 == ends[k] - begin &&
                    memcmp(c->fill.data, c->text.data + begin, c->fill.n - 1) == 0;
        if (same && (k || !p->reference))
            p->fill_feature = p->first + (int32_t)k - (int32_t)p->reference;
    }
    return next;
}

static bool add_table(read_column *c, bytes *out) {
    tusk_preparation_column *p = &c->record;
    uint32_t size = 2;
    while (size < 2 * p->n_levels)
        size *= 2;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    const uint32_t *ends = (const uint32_t *)(const void *)c->ends.data;
    for (uint32_t k = 0; k < p->n_levels; k++) {
        uint32_t begin = k ? ends[k - 1] : 0;
        uint32_t at = (uint32_t)tusk_hash_text(c->text.data + begin, ends[k] - begin);
        while (table[at & (size - 1)])
            at++;
        table[at & (size - 1)] = k + 1;
    }
    p->table = (uint32_t)out->n;
    p->table_mask = size - 1;
    bool added = add(out, table, size * sizeof *table);
    free(table);
    return added;
}

static bool add_column(read_column *c, bytes *out) {
    tusk_preparation_column *p = &c->record;
    p->name = (uint32_t)out->n;
    p->name_length = (uint32_t)c->name.n;
    if (!add(out, c->name.data, c->name.n))
        return false;
    if (!p->category)
        return true;
    p->ends = (uint32_t)out->n;
    if (!add(out, c->ends.data, c->ends.n))
        return false;
    p->text = (uint32_t)out->n;
    return add(out, c->text.data, c->text.n) && add_table(c, out);
}

static bool write_bytes(reader *r, bytes *out) {
    size_t n = r->head.n_columns, records = sizeof r->head + n * sizeof(tusk_preparation_column);
    char *blank = calloc(records, 1);
    bool done = blank && add(out, blank, records);
    free(blank);
    int32_t next = 0;
    for (size_t i = 0; done && i < n; i++) {
        read_column *c = r->column + i;
        next = place_features(c, next);
        r->head.names = tusk_hash_mix(r->head.names, tusk_hash_text(c->name.data, c->name.n));
        r->head.names = tusk_hash_mix(r->head.names, c->record.category);
        done = add_column(c, out) && out->n < UINT32_MAX;
        memcpy(out->data + sizeof r->head + i * sizeof c->record, &c->record, sizeof c->record);
    }
    if (done)
        memcpy(out->data, &r->head, sizeof r->head);
    return done;
}

bool tusk_preparation_of(tusk_text json, tusk_text *found, char *sentence) {
    reader r = {.at = json.data, .end = json.data + json.length};
    bytes out = {0};
    read_whole(&r);
    bool done = !r.failed && write_bytes(&r, &out);
    for (size_t i = 0; r.column && i < r.head.n_columns; i++) {
        read_column *c = r.column + i;
        free(c->name.data);
        free(c->text.data);
        free(c->fill.data);
        free(c->ends.data);
    }
    free(r.column);
    if (!done) {
        free(out.data);
        snprintf(sentence, TUSK_SENTENCE,
                 "the preparation of the model is not the JSON that train_model wrote");
        return false;
    }
    *found = (tusk_text){out.data, out.n};
    return true;
}
