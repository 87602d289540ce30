/* Reads the JSON of a preparation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preparation.h"

typedef struct reader {
    json_reader json;
    tusk_preparation_head head;
    tusk_read_column *column;
    size_t room;
} reader;

/* --- lists --- */

static void read_levels(json_reader *r, tusk_read_column *c) {
    json_need(r, '[');
    if (json_take(r, ']'))
        return;
    do {
        json_string(r, &c->text);
        uint32_t end = (uint32_t)c->text.n;
        r->failed |= c->text.n > UINT32_MAX / 2 || !tusk_add(&c->ends, &end, sizeof end);
        c->record.n_levels++;
    } while (json_take(r, ','));
    json_need(r, ']');
}

/* Whole numbers up to 2^53. */
static uint64_t read_whole(json_reader *r) {
    double x = json_number(r);
    r->failed |= !(x >= 0 && x <= 9007199254740992.0);
    return r->failed ? 0 : (uint64_t)x;
}

static void read_keys(json_reader *r, tusk_read_column *c) {
    json_need(r, '[');
    if (json_take(r, ']'))
        return;
    do {
        uint64_t key = read_whole(r);
        r->failed |= !tusk_add(&c->keys, &key, sizeof key) || c->record.n_keys > UINT32_MAX / 16;
        c->record.n_keys++;
    } while (!r->failed && json_take(r, ','));
    json_need(r, ']');
}

static void read_factors(json_reader *r, tusk_read_column *c) {
    json_need(r, '[');
    do {
        r->failed |= c->record.n_factors == TUSK_MOST_FACTORS;
        if (!r->failed)
            c->record.factor[c->record.n_factors++] = (uint32_t)read_whole(r);
    } while (!r->failed && json_take(r, ','));
    json_need(r, ']');
}

/* --- the members --- */

static void read_fill(json_reader *r, tusk_read_column *c) {
    while (r->at < r->end && *r->at == ' ')
        r->at++;
    if (r->at < r->end && *r->at == '"') {
        json_string(r, &c->fill);
        r->failed |= !tusk_add(&c->fill, "", 1);
        return;
    }
    c->record.fill = json_number(r);
}

/* The index of the next word in a list of words. */
static uint32_t read_choice(json_reader *r, const char *const *names, uint32_t n) {
    char word[32];
    json_word(r, word);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    r->failed = true;
    return 0;
}

static void read_flag(json_reader *r, tusk_read_column *c, const char *key) {
    bool truth = json_truth(r);
    if (strcmp(key, "reference") == 0)
        c->record.reference = truth;
    else if (strcmp(key, "numbers") == 0)
        c->record.of_numbers = truth;
    else if (strcmp(key, "other") == 0)
        c->has_other = truth;
    else if (strcmp(key, "missing") == 0)
        c->has_missing = truth;
    else if (strcmp(key, "indicator") == 0)
        c->has_indicator = truth;
    else
        r->failed = true;
}

static void read_member(json_reader *r, tusk_read_column *c) {
    static const char *const KINDS[TUSK_BECOMES] = {"number",  "category", "cycle",
                                                    "product", "words",    "levels"};
    char key[32];
    json_word(r, key);
    json_need(r, ':');
    if (r->failed)
        return;
    if (strcmp(key, "name") == 0)
        json_string(r, &c->name);
    else if (strcmp(key, "column") == 0)
        json_string(r, &c->source);
    else if (strcmp(key, "kind") == 0)
        c->record.becomes = read_choice(r, KINDS, TUSK_BECOMES);
    else if (strcmp(key, "part") == 0)
        c->record.part = read_choice(r, TUSK_PART_NAMES, TUSK_PARTS);
    else if (strcmp(key, "levels") == 0)
        read_levels(r, c);
    else if (strcmp(key, "keys") == 0)
        read_keys(r, c);
    else if (strcmp(key, "factors") == 0)
        read_factors(r, c);
    else if (strcmp(key, "bits") == 0)
        c->record.bits = (uint32_t)read_whole(r) & 31;
    else if (strcmp(key, "fill") == 0)
        read_fill(r, c);
    else
        read_flag(r, c, key);
}

static tusk_read_column *next_column(reader *r) {
    if (r->head.n_columns == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        tusk_read_column *more = realloc(r->column, room * sizeof *more);
        if (!more)
            return NULL;
        r->column = more;
        r->room = room;
    }
    tusk_read_column *c = r->column + r->head.n_columns++;
    memset(c, 0, sizeof *c);
    return c;
}

static void read_columns(reader *whole) {
    json_reader *r = &whole->json;
    json_need(r, '[');
    do {
        tusk_read_column *c = next_column(whole);
        r->failed |= !c;
        json_need(r, '{');
        if (r->failed)
            return;
        do
            read_member(r, c);
        while (json_take(r, ','));
        json_need(r, '}');
        r->failed |= c->record.reference && !c->record.n_levels;
    } while (json_take(r, ','));
    json_need(r, ']');
}

static void read_all(reader *whole) {
    static const char *const MISSING[TUSK_GAPS] = {"skip", "impute", "level", "error", "keep"};
    static const char *const UNSEEN[TUSK_UNSEENS] = {"other", "error", "null"};
    json_reader *r = &whole->json;
    char key[32];
    bool known = false;
    json_need(r, '{');
    do {
        json_word(r, key);
        json_need(r, ':');
        if (strcmp(key, "version") == 0) {
            known = json_number(r) == 1;
        } else if (strcmp(key, "missing") == 0) {
            whole->head.missing = read_choice(r, MISSING, TUSK_GAPS);
        } else if (strcmp(key, "unseen") == 0) {
            whole->head.unseen = read_choice(r, UNSEEN, TUSK_UNSEENS);
        } else if (strcmp(key, "columns") == 0 && !whole->column) {
            read_columns(whole);
        } else {
            r->failed = true;
        }
    } while (json_take(r, ','));
    json_need(r, '}');
    r->failed |= !known || !whole->column;
}

static void free_columns(reader *r) {
    for (size_t i = 0; r->column && i < r->head.n_columns; i++) {
        tusk_read_column *c = r->column + i;
        tusk_bytes *owned[] = {&c->name, &c->source, &c->text, &c->fill, &c->ends, &c->keys};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]->data);
    }
    free(r->column);
}

bool tusk_preparation_of(tusk_text json, tusk_text *found, char *sentence) {
    reader r = {.json = {.at = json.data, .end = json.data + json.length},
                .head = {.version = TUSK_PREPARATION_VERSION}};
    tusk_bytes out = {0};
    read_all(&r);
    tusk_preparation_head head;
    bool done = !r.json.failed && tusk_preparation_write(r.head, r.column, &out) &&
                tusk_preparation_open((tusk_text){out.data, out.n}, &head);
    free_columns(&r);
    if (!done) {
        free(out.data);
        snprintf(sentence, TUSK_SENTENCE,
                 "the preparation of the model is not the JSON that train_model wrote");
        return false;
    }
    *found = (tusk_text){out.data, out.n};
    return true;
}
