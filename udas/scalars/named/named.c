/* Expands rows with names into the features of a model. */
#include "named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../../rowblock/text_hash.h"
#include "../models/quoted.h"
#include "preparation.h"

bool tusk_preparation_open(tusk_text bytes, tusk_preparation_head *head) {
    if (bytes.length < sizeof *head)
        return false;
    memcpy(head, bytes.data, sizeof *head);
    if (head->version != 1 || head->n_columns > bytes.length / sizeof(tusk_preparation_column))
        return false;
    size_t records = sizeof *head + head->n_columns * sizeof(tusk_preparation_column);
    if (records > bytes.length)
        return false;
    for (uint32_t i = 0; i < head->n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(bytes, i);
        uint64_t ends = c.ends + 4ull * c.n_levels, table = c.table + 4ull * (c.table_mask + 1ull);
        if ((uint64_t)c.name + c.name_length > bytes.length || ends > bytes.length ||
            table > bytes.length || c.text > bytes.length ||
            (c.category && c.n_levels > c.table_mask))
            return false;
    }
    return true;
}

tusk_preparation_column tusk_preparation_at(tusk_text bytes, uint32_t column) {
    tusk_preparation_column c;
    memcpy(&c, bytes.data + sizeof(tusk_preparation_head) + column * sizeof c, sizeof c);
    return c;
}

/* --- matching --- */

static bool is_name(const char *given, tusk_text name, bool exact) {
    size_t n = strlen(given);
    return n == name.length &&
           (exact ? memcmp(given, name.data, n) == 0 : strncasecmp(given, name.data, n) == 0);
}

/* The column with a name; one that differs in case only if there is no other. */
static uint32_t find_column(const tusk_named_rows *rows, tusk_text name) {
    for (int exact = 1; exact >= 0; exact--)
        for (uint32_t i = 0; i < rows->n_columns; i++)
            if (is_name(rows->column[i].name, name, exact))
                return i;
    return rows->n_columns;
}

static bool refuse_missing(const tusk_named_rows *rows, tusk_text name, char *sentence) {
    char given[300] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < rows->n_columns && used < sizeof given - 70; i++)
        used += (size_t)snprintf(given + used, sizeof given - used, "%s%.60s", i ? ", " : "",
                                 rows->column[i].name);
    snprintf(sentence, TUSK_SENTENCE,
             "the row has no column '%.*s', which the model was trained on; it has %s",
             tusk_quoted(name.data, name.length, 100), name.data, given);
    return false;
}

static bool make_room(tusk_named_rows *rows, uint32_t n) {
    if (n <= rows->room)
        return true;
    tusk_named_free(rows);
    rows->match = malloc(n * sizeof *rows->match);
    rows->ids = malloc(2 * n * sizeof *rows->ids);
    rows->values = malloc(2 * n * sizeof *rows->values);
    rows->room = n;
    return rows->match && rows->ids && rows->values;
}

void tusk_named_free(tusk_named_rows *rows) {
    free(rows->match);
    free(rows->ids);
    free(rows->values);
    rows->match = NULL;
    rows->ids = NULL;
    rows->values = NULL;
    rows->room = rows->n_matched = 0;
}

bool tusk_named_match(tusk_named_rows *rows, const tusk_scorer *s, char *sentence) {
    tusk_preparation_head head;
    if (!s->preparation.length) {
        snprintf(sentence, TUSK_SENTENCE,
                 "the model was trained on lists of numbers, expected features such as [a, b]");
        return false;
    }
    memcpy(&head, s->preparation.data, sizeof head);
    if (rows->n_matched == head.n_columns && rows->names == head.names)
        return true;
    if (!make_room(rows, head.n_columns)) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    rows->n_matched = 0;
    for (uint32_t i = 0; i < head.n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        tusk_text name = {s->preparation.data + c.name, c.name_length};
        rows->match[i] = find_column(rows, name);
        if (rows->match[i] == rows->n_columns)
            return refuse_missing(rows, name, sentence);
    }
    rows->n_matched = head.n_columns;
    rows->names = head.names;
    return true;
}

/* --- rows --- */

/* A row that is being expanded. */
typedef struct expansion {
    tusk_text all; /* the preparation */
    const tusk_preparation_head *head;
    tusk_sparse_row *out;
    int32_t *ids;
    double *values;
    char *sentence;
} expansion;

static void put(expansion *e, int32_t feature, double value) {
    if (feature < 0)
        return;
    e->ids[e->out->n_ids] = feature;
    e->values[e->out->n_ids++] = value;
}

/* The number of a level, or n_levels. */
static uint32_t level_of(tusk_text all, const tusk_preparation_column *c, tusk_text text) {
    const tusk_u32 *table = (const tusk_u32 *)(all.data + c->table),
                   *ends = (const tusk_u32 *)(all.data + c->ends);
    uint32_t at = (uint32_t)tusk_hash_text(text.data, text.length);
    for (uint32_t tries = 0; tries <= c->table_mask; tries++, at++) {
        uint32_t level = table[at & c->table_mask];
        if (!level-- || level >= c->n_levels)
            break;
        uint32_t begin = level ? ends[level - 1] : 0, end = ends[level];
        if (end < begin || end - begin != text.length || c->text + (uint64_t)end > all.length)
            continue;
        if (tusk_same_bytes(all.data + c->text + begin, text.data, text.length))
            return level;
    }
    return c->n_levels;
}

static bool refuse(char *sentence, tusk_text all, const tusk_preparation_column *c,
                   const char *what, tusk_text value) {
    snprintf(sentence, TUSK_SENTENCE, "column '%.*s' %s%.*s%s",
             tusk_quoted(all.data + c->name, c->name_length, 100), all.data + c->name, what,
             tusk_quoted(value.data, value.length, 60), value.data ? value.data : "",
             value.data ? "', which the model was not trained on: option 'unseen' is 'error'"
                        : "");
    return false;
}

static bool put_level(expansion *e, const tusk_preparation_column *c, tusk_text text) {
    uint32_t level = level_of(e->all, c, text);
    if (level < c->n_levels)
        put(e, level || !c->reference ? c->first + (int32_t)(level - c->reference) : -1, 1);
    else if (c->other >= 0 || !e->head->refuse_unseen)
        put(e, c->other, 1);
    else
        return refuse(e->sentence, e->all, c, "is '", text);
    return true;
}

/* What fills a NULL; *null if nothing does. */
static bool put_gap(expansion *e, const tusk_preparation_column *c, bool *null) {
    const tusk_text none = {NULL, 0};
    if (e->head->missing == TUSK_GAP_ERROR)
        return refuse(e->sentence, e->all, c,
                      "is NULL, expected a value as option 'missing' is 'error'", none);
    *null |= e->head->missing == TUSK_GAP_SKIP;
    if (!c->category)
        put(e, c->first, c->fill);
    else if (c->missing >= 0)
        put(e, c->missing, 1);
    else
        put(e, e->head->missing == TUSK_GAP_LEVEL ? c->other : c->fill_feature, 1);
    put(e, c->indicator, 1);
    return true;
}

bool tusk_named_row(const tusk_named_rows *rows, const tusk_scorer *s, uint64_t row,
                    tusk_sparse_row *features, bool *null, char *sentence) {
    tusk_preparation_head head;
    memcpy(&head, s->preparation.data, sizeof head);
    *features = (tusk_sparse_row){.ids = rows->ids, .values = rows->values};
    expansion e = {s->preparation, &head, features, rows->ids, rows->values, sentence};
    const tusk_text none = {NULL, 0};
    *null = false;
    for (uint32_t i = 0; i < head.n_columns && !*null; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        const tusk_given_column *given = rows->column + rows->match[i];
        bool done = true;
        if (!tusk_given_valid(given, row))
            done = put_gap(&e, &c, null);
        else if (c.category ? !given->texts : !given->numbers)
            done = refuse(sentence, s->preparation, &c,
                          c.category ? "is a number, and the model was trained on text"
                                     : "is text, and the model was trained on numbers",
                          none);
        else if (c.category)
            done = put_level(&e, &c, given->texts[row]);
        else
            put(&e, c.first, given->numbers[row]);
        if (!done)
            return false;
    }
    features->n_values = features->n_ids;
    return true;
}
