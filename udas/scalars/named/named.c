/* Expands rows with names into the features of a model. */
#include "named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../models/quoted.h"
#include "preparation.h"

/* Largest number of nonzero features of a column in a row, without words: a product of three
 * cycles has eight, and another one marks a missing value. */
#define MOST_ENTRIES 9

/* The features of a column in a row, without an indicator. A product needs those of its
   factors. */
typedef struct tusk_entries_of {
    int n;
    int32_t feature[2];
    double value[2];
} tusk_entries_of;

static bool refuse_memory(char *sentence) {
    snprintf(sentence, TUSK_SENTENCE, "out of memory");
    return false;
}

static bool room_for(tusk_named_rows *rows, uint64_t n) {
    if (n <= rows->entries_room)
        return true;
    int32_t *ids = realloc(rows->ids, n * sizeof *ids);
    rows->ids = ids ? ids : rows->ids;
    double *values = realloc(rows->values, n * sizeof *values);
    rows->values = values ? values : rows->values;
    if (ids && values)
        rows->entries_room = n;
    return ids && values;
}

/* --- matching --- */

static bool is_name(const char *given, tusk_text name, bool exact) {
    size_t n = strlen(given);
    return n == name.length &&
           (exact ? memcmp(given, name.data, n) == 0 : strncasecmp(given, name.data, n) == 0);
}

/* The next column from `first` on with a name, exactly or regardless of case; n_columns: none. */
static uint32_t next_column(const tusk_named_rows *rows, uint32_t first, tusk_text name,
                            bool exact) {
    uint32_t i = first;
    while (i < rows->n_columns && !is_name(rows->column[i].name, name, exact))
        i++;
    return i;
}

static bool refuse_several(const char *one, const char *other, tusk_text name, char *sentence) {
    snprintf(sentence, TUSK_SENTENCE,
             "the row has columns '%.60s' and '%.60s', expected one that is called '%.*s'", one,
             other, tusk_quoted(name.data, name.length, 60), name.data);
    return false;
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

bool tusk_named_column(const tusk_named_rows *rows, tusk_text name, uint32_t *found,
                       char *sentence) {
    *found = next_column(rows, 0, name, true);
    if (*found < rows->n_columns)
        return true;
    *found = next_column(rows, 0, name, false);
    if (*found == rows->n_columns)
        return refuse_missing(rows, name, sentence);
    uint32_t other = next_column(rows, *found + 1, name, false);
    return other == rows->n_columns ||
           refuse_several(rows->column[*found].name, rows->column[other].name, name, sentence);
}

static bool make_room(tusk_named_rows *rows, uint32_t n) {
    if (n <= rows->room)
        return true;
    tusk_named_free(rows);
    rows->match = malloc(n * sizeof *rows->match);
    rows->entries = malloc(n * sizeof *rows->entries);
    rows->room = n;
    return rows->match && rows->entries && room_for(rows, MOST_ENTRIES * (uint64_t)n);
}

void tusk_named_free(tusk_named_rows *rows) {
    free(rows->match);
    free(rows->entries);
    free(rows->ids);
    free(rows->values);
    for (int k = 0; k < TUSK_SHARES_AT_ONCE; k++) {
        free(rows->share[k].ids);
        free(rows->share[k].values);
        rows->share[k] = (tusk_named_share){0};
    }
    rows->match = NULL;
    rows->entries = NULL;
    rows->ids = NULL;
    rows->values = NULL;
    rows->entries_room = 0;
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
    if (!make_room(rows, head.n_columns))
        return refuse_memory(sentence);
    rows->n_matched = 0;
    for (uint32_t i = 0; i < head.n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        tusk_text name = {s->preparation.data + c.name, c.name_length};
        bool product = c.becomes == TUSK_AS_PRODUCT;
        rows->match[i] = 0;
        if (!product && !tusk_named_column(rows, name, rows->match + i, sentence))
            return false;
    }
    rows->n_matched = head.n_columns;
    rows->names = head.names;
    return true;
}

/* --- rows --- */

/* State of a row's expansion. */
typedef struct expansion {
    tusk_text all; /* the preparation */
    const tusk_preparation_head *head;
    tusk_named_rows *rows;
    uint64_t n; /* features so far */
    bool null;  /* a NULL that the model does not fill */
    char *sentence;
} expansion;

static void put(expansion *e, int32_t feature, double value) {
    if (feature < 0)
        return;
    e->rows->ids[e->n] = feature;
    e->rows->values[e->n++] = value;
}

static void note(tusk_entries_of *found, int32_t feature, double value) {
    if (feature < 0)
        return;
    found->feature[found->n] = feature;
    found->value[found->n++] = value;
}

uint32_t tusk_level_of(tusk_text all, const tusk_preparation_column *c, tusk_text text) {
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

static bool refuse(const expansion *e, const tusk_preparation_column *c, const char *what,
                   tusk_text value) {
    snprintf(e->sentence, TUSK_SENTENCE, "column '%.*s' %s%.*s%s",
             tusk_quoted(e->all.data + c->name, c->name_length, 100), e->all.data + c->name, what,
             tusk_quoted(value.data, value.length, 60), value.data ? value.data : "",
             value.data ? "', which the model was not trained on: option 'unseen' is 'error'"
                        : "");
    return false;
}

static bool put_level(expansion *e, const tusk_preparation_column *c, tusk_text text,
                      tusk_entries_of *found) {
    uint32_t level = tusk_level_of(e->all, c, text);
    if (level >= c->n_levels && c->other < 0 && e->head->unseen != TUSK_UNSEEN_OTHER) {
        e->null = e->head->unseen == TUSK_UNSEEN_NULL;
        return e->null || refuse(e, c, "is '", text);
    }
    if (c->becomes == TUSK_AS_LEVELS)
        note(found, c->first, level < c->n_levels ? level : NAN);
    else if (level < c->n_levels)
        note(found, level || !c->reference ? c->first + (int32_t)(level - c->reference) : -1, 1);
    else
        note(found, c->other, 1);
    return true;
}

static void put_number(const tusk_preparation_column *c, double value, tusk_entries_of *found) {
    if (c->becomes == TUSK_AS_NUMBER) {
        note(found, c->first, value);
        return;
    }
    note(found, c->first, sin(tusk_angle(value, (enum tusk_date_part)c->part)));
    note(found, c->first + 1, cos(tusk_angle(value, (enum tusk_date_part)c->part)));
}

/* Adds the features that fill a NULL. */
static bool put_gap(expansion *e, const tusk_preparation_column *c, tusk_entries_of *found) {
    const tusk_text none = {NULL, 0};
    if (e->head->missing == TUSK_GAP_ERROR)
        return refuse(e, c, "is NULL, expected a value as option 'missing' is 'error'", none);
    e->null |= e->head->missing == TUSK_GAP_SKIP;
    bool keeps = e->head->missing == TUSK_GAP_KEEP;
    bool own_level = keeps || e->head->missing == TUSK_GAP_LEVEL;
    if (c->becomes == TUSK_AS_LEVELS)
        note(found, c->first, c->missing >= 0 ? c->n_levels : own_level ? NAN : c->fill);
    else if (c->becomes == TUSK_AS_CATEGORY)
        note(found, c->missing >= 0 ? c->missing : own_level ? c->other : c->fill_feature, 1);
    else if (c->becomes != TUSK_AS_WORDS)
        put_number(c, keeps ? NAN : c->fill, found);
    return true;
}

/* --- words --- */

/* The index of a key, or n_keys. */
static uint32_t key_of(tusk_text all, const tusk_preparation_column *c, uint64_t key) {
    const tusk_u64 *keys = (const tusk_u64 *)(all.data + c->keys);
    uint32_t low = 0, high = c->n_keys;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->n_keys && keys[low] == key ? low : c->n_keys;
}

static int by_id(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Adds the bucket of a word or a pair, if the model has it. */
static void put_bucket(expansion *e, const tusk_preparation_column *c, uint32_t bucket) {
    uint32_t at = key_of(e->all, c, bucket);
    if (at < c->n_keys)
        put(e, c->first + (int32_t)at, 1);
}

static bool put_words(expansion *e, const tusk_preparation_column *c, tusk_text text) {
    if (!room_for(e->rows, e->n + text.length + MOST_ENTRIES * (uint64_t)e->head->n_columns))
        return refuse_memory(e->sentence);
    uint64_t from = e->n, to = from, before = 0;
    const char *at = text.data, *end = at + text.length;
    for (uint64_t word; (word = tusk_next_word(&at, end)); before = word) {
        put_bucket(e, c, tusk_bucket(0, word, (int)c->bits));
        if (before)
            put_bucket(e, c, tusk_bucket(before, word, (int)c->bits));
    }
    int32_t *ids = e->rows->ids;
    if (e->n > from)
        qsort(ids + from, e->n - from, sizeof *ids, by_id);
    for (uint64_t i = from; i < e->n; i++) {
        bool again = i > from && ids[i] == ids[to - 1];
        if (!again) {
            ids[to] = ids[i];
            e->rows->values[to++] = 0;
        }
        e->rows->values[to - 1] += 1;
    }
    e->n = to;
    return true;
}

/* --- products --- */

/* Adds the combinations of the factors' features that the model has. */
static void put_product(expansion *e, const tusk_preparation_column *c) {
    uint64_t key[8] = {0};
    double value[8] = {1};
    int n = 1;
    for (uint32_t f = 0; f < c->n_factors; f++) {
        const tusk_entries_of *factor = e->rows->entries + c->factor[f];
        tusk_preparation_column of = tusk_preparation_at(e->all, c->factor[f]);
        for (int i = n * factor->n - 1; i >= 0; i--) { /* backwards: it reads the first n */
            int from = i % n, to = i / n;
            key[i] = key[from] * of.width + (uint32_t)(factor->feature[to] - of.first);
            value[i] = value[from] * factor->value[to];
        }
        n *= factor->n;
    }
    for (int i = 0; i < n; i++) {
        uint32_t at = key_of(e->all, c, key[i]);
        if (at < c->n_keys)
            put(e, c->first + (int32_t)at, value[i]);
    }
}

/* --- a row --- */

tusk_text tusk_level_text(const tusk_given_column *c, uint64_t row, double value,
                          char room[TUSK_NUMBER_ROOM]) {
    _Static_assert(TUSK_NUMBER_ROOM >= TUSK_NUMBER_TEXT, "a number fits");
    if (fabs(value) >= 0x1p53 && c->digits && c->digits[row].data)
        return c->digits[row];
    return (tusk_text){room, tusk_number_text(value, room)};
}

static bool put_value(expansion *e, const tusk_preparation_column *c,
                      const tusk_given_column *given, uint64_t row, tusk_entries_of *found) {
    const tusk_text none = {NULL, 0};
    bool text = tusk_reads_text(c);
    if (text ? !given->texts : !given->numbers)
        return refuse(e, c,
                      !given->texts && !given->numbers
                          ? "is of a type that cannot be a feature, expected a number, a date, a "
                            "timestamp, text, an enum, boolean or uuid"
                      : text ? "is a number, and the model was trained on text"
                             : "is text, and the model was trained on numbers",
                      none);
    if (c->becomes == TUSK_AS_WORDS)
        return put_words(e, c, given->texts[row]);
    if (text)
        return put_level(e, c, given->texts[row], found);
    double value = tusk_part_of(given->numbers[row], (enum tusk_date_part)c->part) + 0.0;
    if (!tusk_has_levels(c)) {
        put_number(c, value, found);
        return true;
    }
    char digits[TUSK_NUMBER_ROOM];
    return put_level(e, c, tusk_level_text(given, row, value, digits), found);
}

static bool put_column(expansion *e, uint32_t i, uint64_t row) {
    tusk_preparation_column c = tusk_preparation_at(e->all, i);
    tusk_entries_of *found = e->rows->entries + i;
    found->n = 0;
    if (c.becomes == TUSK_AS_PRODUCT) {
        put_product(e, &c);
        return true;
    }
    const tusk_given_column *given = e->rows->column + e->rows->match[i];
    bool there = tusk_given_valid(given, row);
    if (!(there ? put_value(e, &c, given, row, found) : put_gap(e, &c, found)))
        return false;
    for (int k = 0; k < found->n; k++)
        put(e, found->feature[k], found->value[k]);
    if (!there)
        put(e, c.indicator, 1);
    return true;
}

bool tusk_named_row(tusk_named_rows *rows, const tusk_scorer *s, uint64_t row,
                    tusk_sparse_row *features, bool *null, char *sentence) {
    tusk_preparation_head head;
    memcpy(&head, s->preparation.data, sizeof head);
    expansion e = {.all = s->preparation, .head = &head, .rows = rows, .sentence = sentence};
    for (uint32_t i = 0; i < head.n_columns && !e.null; i++)
        if (!put_column(&e, i, row))
            return false;
    *null = e.null;
    *features =
        (tusk_sparse_row){.ids = rows->ids, .values = rows->values, .n_ids = e.n, .n_values = e.n};
    return true;
}

/* --- what one column has in a row --- */

static bool share_room(tusk_named_share *share, uint64_t n) {
    if (n <= share->room)
        return true;
    free(share->ids);
    free(share->values);
    share->ids = malloc(n * sizeof *share->ids);
    share->values = malloc(n * sizeof *share->values);
    share->room = share->ids && share->values ? n : 0;
    return share->room;
}

static void put_products_of(expansion *e, uint32_t column) {
    for (uint32_t i = column + 1; i < e->head->n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(e->all, i);
        for (uint32_t f = 0; c.becomes == TUSK_AS_PRODUCT && f < c.n_factors; f++)
            if (c.factor[f] == column) {
                put_product(e, &c);
                break;
            }
    }
}

bool tusk_named_share_of(tusk_named_rows *rows, const tusk_scorer *s,
                         const tusk_named_change *change, int place, tusk_sparse_row *features,
                         char *sentence) {
    tusk_preparation_head head;
    memcpy(&head, s->preparation.data, sizeof head);
    tusk_named_share *share = rows->share + place;
    if (!share_room(share, MOST_ENTRIES * (uint64_t)head.n_columns))
        return refuse_memory(sentence);
    tusk_entries_of *own = rows->entries + change->column, kept = *own;
    if (!change->as_it_is) {
        own->n = 0;
        note(own, change->feature, change->value);
    }
    tusk_named_rows with = *rows; /* whose features are those of the share */
    with.ids = share->ids;
    with.values = share->values;
    expansion e = {.all = s->preparation, .head = &head, .rows = &with, .sentence = sentence};
    for (int k = 0; k < own->n; k++)
        put(&e, own->feature[k], own->value[k]);
    if (!change->alone)
        put_products_of(&e, change->column);
    *own = kept;
    *features = (tusk_sparse_row){
        .ids = share->ids, .values = share->values, .n_ids = e.n, .n_values = e.n};
    return true;
}
