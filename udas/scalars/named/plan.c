#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "../models/margins.h"
#include "../trees/packed.h"
#include "preparation.h"

#define FIRST_ROOM 256
#define MOST_BYTES ((size_t)64 << 20)
#define NEAR_BYTES 16
#define MANY_ROWS                                                                 \
    48 /* of one model: for so many, each tree is unpacked and they walk together \
        */
#define NO_LEVEL UINT32_MAX
#define KEY_BYTES 16 /* of the payload's head, with its CRC */

/* One level and what it weighs, in half a cache line. */
typedef struct weighed {
    uint32_t hash, length; /* NO_LEVEL: a free place */
    union {
        char near[NEAR_BYTES];
        const char *far;
    } text;
    double weight;
} weighed;

typedef struct planned_column {
    bool text, category, refuses_unseen;
    uint32_t part;
    uint32_t mask;
    double weight; /* of a number, or of a level that is not known */
    double gap;    /* what a NULL adds */
    weighed *table;
} planned_column;

struct tusk_plan {
    char *payload;
    tusk_scorer scorer;
    bool packs;          /* whether its trees are to be packed for the first dense row */
    tusk_packed *packed; /* NULL: not yet, or they have no such form */
    size_t bytes;
    bool linear;        /* whether `column` says all about it */
    uint32_t missing;   /* enum tusk_gap */
    const void *schema; /* of the rows that it was matched with last */
    bool fits;          /* whether they have numbers and text where the model has */
    uint32_t n_columns;
    uint32_t *match;
    planned_column *column;
};

/* --- from a payload to a plan --- */

static double weight_of(const tusk_scorer *s, int64_t feature) {
    return feature >= 0 && (uint64_t)feature < s->n_coef ? s->coef[feature] : 0;
}

static void put_level(planned_column *p, tusk_text text, double weight) {
    uint32_t hash = (uint32_t)tusk_hash_text(text.data, text.length), at = hash & p->mask;
    while (p->table[at].length != NO_LEVEL)
        at = (at + 1) & p->mask;
    weighed *w = p->table + at;
    w->hash = hash;
    w->length = (uint32_t)text.length;
    w->weight = weight;
    if (text.length > NEAR_BYTES)
        w->text.far = text.data;
    else
        memcpy(w->text.near, text.data, text.length);
}

/* False if memory is out or if the levels' bytes are not where they should be. */
static bool plan_levels(const tusk_scorer *s, const tusk_preparation_column *c, planned_column *p,
                        size_t *bytes) {
    tusk_text all = s->preparation;
    const tusk_u32 *ends = (const tusk_u32 *)(all.data + c->ends);
    uint32_t size = 4;
    while (size < c->n_levels + c->n_levels / 4 + 1)
        size *= 2;
    p->mask = size - 1;
    *bytes += size * sizeof *p->table;
    if (posix_memalign((void **)&p->table, 64, size * sizeof *p->table)) {
        p->table = NULL;
        return false;
    }
    for (uint32_t i = 0; i < size; i++)
        p->table[i].length = NO_LEVEL;
    for (uint32_t k = 0; k < c->n_levels; k++) {
        uint32_t begin = k ? ends[k - 1] : 0, end = ends[k];
        if (end < begin || c->text + (uint64_t)end > all.length)
            return false;
        int64_t feature = (int64_t)c->first + k - (c->reference ? 1 : 0);
        bool none = c->reference && !k;
        put_level(p, (tusk_text){all.data + c->text + begin, end - begin},
                  none ? 0 : weight_of(s, feature));
    }
    return true;
}

static double gap_of(const tusk_scorer *s, const tusk_preparation_column *c, uint32_t missing) {
    double gap = c->becomes == TUSK_AS_NUMBER ? c->fill * weight_of(s, c->first)
                 : c->missing >= 0            ? weight_of(s, c->missing)
                 : missing == TUSK_GAP_LEVEL  ? weight_of(s, c->other)
                                              : weight_of(s, c->fill_feature);
    return gap;
}

/* Lays out a linear model of numbers and categories. False if it is none or if memory is out; the
 * plan then scores a row as any other model. */
static bool lay_out(tusk_plan *p) {
    const tusk_scorer *s = &p->scorer;
    bool one_margin = s->task == TUSK_LINEAR || s->task == TUSK_LOGISTIC || s->task == TUSK_SVM;
    tusk_preparation_head head;
    memcpy(&head, s->preparation.data, sizeof head);
    p->missing = head.missing;
    p->n_columns = head.n_columns;
    p->match = calloc(head.n_columns + 1, sizeof *p->match);
    p->column = calloc(head.n_columns + 1, sizeof *p->column);
    if (!one_margin || !p->match || !p->column)
        return false;
    for (uint32_t i = 0; i < head.n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        planned_column *to = p->column + i;
        bool indicated = c.indicator >= 0; /* two weights of a NULL */
        if (c.becomes > TUSK_AS_CATEGORY || indicated)
            return false;
        to->category = c.becomes == TUSK_AS_CATEGORY;
        to->text = tusk_reads_text(&c);
        to->part = c.part;
        to->gap = gap_of(s, &c, head.missing);
        to->weight = weight_of(s, to->category ? c.other : c.first);
        to->refuses_unseen = head.refuse_unseen && c.other < 0;
        if (to->category && !plan_levels(s, &c, to, &p->bytes))
            return false;
    }
    p->bytes += head.n_columns * (sizeof *p->match + sizeof *p->column);
    return true;
}

static void plan_free(tusk_plan *p) {
    for (uint32_t i = 0; p->column && i < p->n_columns; i++)
        free(p->column[i].table);
    free(p->column);
    free(p->match);
    free(p->packed);
    free(p->payload);
    free(p);
}

static tusk_plan *plan_new(tusk_text payload, const tusk_stores *stores, enum tusk_answer answer) {
    char sentence[TUSK_SENTENCE];
    tusk_plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->payload = malloc(payload.length);
    p->bytes = sizeof *p + payload.length;
    tusk_text copy = {p->payload, payload.length};
    if (p->payload)
        memcpy(p->payload, payload.data, payload.length);
    if (!p->payload || !tusk_read_model(copy, stores, answer, &p->scorer, sentence)) {
        plan_free(p);
        return NULL;
    }
    if (p->scorer.stored || p->scorer.null) {
        tusk_forget_model(&p->scorer);
        plan_free(p);
        return NULL;
    }
    p->packs = p->scorer.is_compact && !p->scorer.preparation.length;
    p->bytes += p->packs ? tusk_packed_bytes(&p->scorer.trees, false) : 0;
    p->linear = p->scorer.preparation.length && lay_out(p);
    return p;
}

tusk_scorer *tusk_plan_scorer(tusk_plan *p) {
    return &p->scorer;
}

void tusk_plan_touch(const tusk_plan *p) {
    if (p->packed)
        tusk_packed_touch(p->packed);
}

static void pack_trees(tusk_plan *p, bool f64) {
    size_t bytes = tusk_packed_bytes(&p->scorer.trees, f64);
    p->packs = false;
    p->packed = bytes ? malloc(bytes) : NULL;
    if (p->packed && !tusk_packed_make(&p->scorer.trees, f64, p->packed)) {
        free(p->packed);
        p->packed = NULL;
    }
}

bool tusk_plan_dense(tusk_plan *p, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                     char *sentence) {
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    tusk_scorer *s = &p->scorer;
    if (p->packs)
        pack_trees(p, f64);
    if (!p->packed || n >= MANY_ROWS || d != tusk_tree_features(s))
        return tusk_margins(s, x, f64, d, n, out, sentence);
    for (uint64_t i = 0; i < n; i++) {
        const char *row = (const char *)x + i * size;
        out[i] = s->intercept;
        if (!tusk_packed_margin(p->packed, row, f64, out + i) &&
            !tusk_margins(s, row, f64, d, 1, out + i, sentence))
            return false;
    }
    return true;
}

/* --- rows --- */

static double level_weight(const planned_column *c, tusk_text text, bool *unseen) {
    uint32_t hash = (uint32_t)tusk_hash_text(text.data, text.length), at = hash & c->mask;
    for (;; at = (at + 1) & c->mask) {
        const weighed *w = c->table + at;
        if (w->length == NO_LEVEL)
            break;
        if (w->hash == hash && w->length == text.length &&
            tusk_same_bytes(text.length > NEAR_BYTES ? w->text.far : w->text.near, text.data,
                            text.length))
            return w->weight;
    }
    *unseen |= c->refuses_unseen;
    return c->weight;
}

void tusk_plan_expect(const tusk_plan *p, const tusk_named_rows *rows, uint64_t row) {
    if (p->schema != rows->schema || !p->fits)
        return;
    for (uint32_t i = 0; i < p->n_columns; i++) {
        const planned_column *c = p->column + i;
        const tusk_given_column *given = rows->column + p->match[i];
        if (!c->text || !tusk_given_valid(given, row))
            continue;
        tusk_text text = given->texts[row];
        uint32_t hash = (uint32_t)tusk_hash_text(text.data, text.length);
        __builtin_prefetch(c->table + (hash & c->mask));
    }
}

/* Adds up the weights. False if the row is to be refused. */
static bool add_up(const tusk_plan *p, const tusk_named_rows *rows, uint64_t row, double *margin,
                   bool *null) {
    double sum = p->scorer.intercept;
    bool refused = false;
    for (uint32_t i = 0; i < p->n_columns; i++) {
        const planned_column *c = p->column + i;
        const tusk_given_column *given = rows->column + p->match[i];
        if (!tusk_given_valid(given, row)) {
            refused |= p->missing == TUSK_GAP_ERROR;
            *null |= p->missing == TUSK_GAP_SKIP;
            sum += c->gap;
        } else if (c->text) {
            sum += level_weight(c, given->texts[row], &refused);
        } else {
            double value = tusk_part_of(given->numbers[row], (enum tusk_date_part)c->part) + 0.0;
            if (!c->category) {
                sum += c->weight * value;
                continue;
            }
            char digits[TUSK_NUMBER_TEXT];
            sum += level_weight(c, (tusk_text){digits, tusk_number_text(value, digits)}, &refused);
        }
    }
    *margin = sum;
    return !refused || *null;
}

/* Finds the model's columns among those of the rows. */
static bool match(tusk_plan *p, tusk_named_rows *rows, char *sentence) {
    if (!tusk_named_match(rows, &p->scorer, sentence))
        return false;
    p->fits = p->linear;
    for (uint32_t i = 0; p->linear && i < p->n_columns; i++) {
        const tusk_given_column *given = rows->column + rows->match[i];
        p->match[i] = rows->match[i];
        p->fits &= p->column[i].text ? given->texts != NULL : given->numbers != NULL;
    }
    p->schema = rows->schema;
    return true;
}

bool tusk_plan_margin(tusk_plan *p, tusk_named_rows *rows, uint64_t row, double *margin,
                      bool *null, char *sentence) {
    *null = false;
    if (p->schema != rows->schema && !match(p, rows, sentence))
        return false;
    if (p->fits && add_up(p, rows, row, margin, null))
        return true;
    *null = false;
    tusk_sparse_row features;
    return tusk_named_match(rows, &p->scorer, sentence) &&
           tusk_named_row(rows, &p->scorer, row, &features, null, sentence) &&
           (*null || tusk_sparse_margin(&p->scorer, &features, true, margin, sentence));
}

/* --- plans by payload --- */

typedef struct known {
    const char *address; /* NULL: a free place */
    size_t length;
    char key[KEY_BYTES];
    enum tusk_answer answer;
    tusk_plan *plan; /* NULL: it came once so far, or has none */
    bool none;       /* it can have none */
} known;

struct tusk_plans {
    known *known;
    size_t room, n, bytes;
    uint64_t asked, found; /* since the chunk began */
};

tusk_plans *tusk_plans_new(void) {
    tusk_plans *plans = calloc(1, sizeof *plans);
    if (plans && (plans->known = calloc(FIRST_ROOM, sizeof *plans->known)))
        plans->room = FIRST_ROOM;
    if (plans && !plans->known) {
        free(plans);
        return NULL;
    }
    return plans;
}

static void forget_all(tusk_plans *plans) {
    for (size_t i = 0; i < plans->room; i++)
        if (plans->known[i].plan)
            plan_free(plans->known[i].plan);
    memset(plans->known, 0, plans->room * sizeof *plans->known);
    plans->n = plans->bytes = 0;
}

void tusk_plans_free(tusk_plans *plans) {
    if (!plans)
        return;
    forget_all(plans);
    free(plans->known);
    free(plans);
}

void tusk_plans_begin(tusk_plans *plans) {
    bool full = plans->bytes > MOST_BYTES || plans->n > MOST_BYTES / 1024;
    if (full && 2 * plans->found < plans->asked)
        forget_all(plans);
    plans->asked = plans->found = 0;
}

static known *place_of(const tusk_plans *plans, tusk_text payload, enum tusk_answer answer) {
    uint64_t at = tusk_hash_mix((uint64_t)(uintptr_t)payload.data, (uint64_t)answer);
    for (;; at++) {
        known *k = plans->known + (at & (plans->room - 1));
        if (!k->address || (k->address == payload.data && k->answer == answer))
            return k;
    }
}

static bool grow(tusk_plans *plans) {
    tusk_plans more = {.known = calloc(2 * plans->room, sizeof *more.known),
                       .room = 2 * plans->room};
    if (!more.known)
        return false;
    for (size_t i = 0; i < plans->room; i++) {
        known *k = plans->known + i;
        if (k->address)
            *place_of(&more, (tusk_text){k->address, k->length}, k->answer) = *k;
    }
    free(plans->known);
    plans->known = more.known;
    plans->room = more.room;
    return true;
}

tusk_plan *tusk_plan_of(tusk_plans *plans, tusk_text payload, const tusk_stores *stores,
                        enum tusk_answer answer) {
    plans->asked++;
    if (payload.length < KEY_BYTES || (2 * plans->n >= plans->room && !grow(plans)))
        return NULL;
    known *k = place_of(plans, payload, answer);
    bool same =
        k->address && k->length == payload.length && memcmp(k->key, payload.data, KEY_BYTES) == 0;
    if (same && k->plan) {
        plans->found++;
        return k->plan;
    }
    if (same) {
        if (k->none || plans->bytes > MOST_BYTES)
            return NULL;
        k->plan = plan_new(payload, stores, answer);
        k->none = !k->plan;
        plans->bytes += k->plan ? k->plan->bytes : 0;
        return k->plan;
    }
    if (k->plan) {
        plans->bytes -= k->plan->bytes;
        plan_free(k->plan);
    }
    plans->n += !k->address;
    *k = (known){.address = payload.data, .length = payload.length, .answer = answer};
    memcpy(k->key, payload.data, KEY_BYTES);
    return NULL;
}
