#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "../../rowblock/text_hash.h"
#include "../models/margins.h"
#include "../trees/packed.h"

#define FIRST_ROOM 256
#define MOST_BYTES ((size_t)64 << 20)
#define MANY_ROWS 32 /* rows that pay for a plan */
/* For this many rows of one model, each tree is unpacked and they walk together. */
#define WALK_ROWS 48
#define KEY_BYTES 64 /* of the payload's head, with its CRC */

struct tusk_plan {
    tusk_layout *layout;         /* NULL: it scores a row by the general method */
    tusk_class_layouts *classes; /* for results that are lists; NULL: likewise */
    bool packs;                  /* whether its trees are to be packed for the first dense row */
    tusk_packed *packed;         /* NULL: not yet, or there is no such form */
    int same;                    /* plans with the same number convert margins alike; 0: none */
    uint32_t payload_bytes;
    char *payload;
    tusk_scorer scorer;
};

/* --- from a payload to a plan --- */

/* The conversion of margins to results. Classes differ for each model. */
static int same_answers(const tusk_scorer *s, enum tusk_answer answer) {
    if (answer == TUSK_DECISION)
        return 1;
    if (answer == TUSK_PREDICT_PROBA)
        return 2 + (int)s->response;
    return answer != TUSK_PREDICT || tusk_has_classes(s)
               ? 0
               : 2 + TUSK_ALL_RESPONSES + (int)s->response;
}

static void plan_free(tusk_layouts *layouts, tusk_plan *p) {
    tusk_layout_free(layouts, p->layout);
    tusk_class_layouts_free(layouts, p->classes);
    tusk_forget_model(&p->scorer);
    free(p->packed);
    free(p->payload);
    free(p);
}

/* Size before its trees are packed. */
static size_t bytes_of(const tusk_plan *p) {
    return sizeof *p + p->payload_bytes +
           (p->packs ? tusk_packed_bytes(&p->scorer.trees, true) : 0);
}

static tusk_plan *plan_new(tusk_layouts *layouts, tusk_text payload, const tusk_stores *stores,
                           enum tusk_answer answer) {
    char sentence[TUSK_SENTENCE];
    tusk_plan *p = payload.length > MOST_BYTES ? NULL : calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->payload = malloc(payload.length);
    p->payload_bytes = (uint32_t)payload.length;
    tusk_text copy = {p->payload, payload.length};
    if (p->payload)
        memcpy(p->payload, payload.data, payload.length);
    if (!p->payload || !tusk_read_model(copy, stores, answer, &p->scorer, sentence)) {
        plan_free(layouts, p);
        return NULL;
    }
    if (p->scorer.stored || p->scorer.null) {
        tusk_forget_model(&p->scorer);
        plan_free(layouts, p);
        return NULL;
    }
    if (answer == TUSK_PREDICT_PROBAS)
        p->classes = tusk_class_layouts_new(layouts, &p->scorer, true);
    else if (p->scorer.preparation.length)
        p->layout = tusk_layout_new(layouts, &p->scorer);
    else if (p->scorer.is_compact)
        p->packs = true;
    p->same = same_answers(&p->scorer, answer);
    return p;
}

tusk_scorer *tusk_plan_scorer(tusk_plan *p) {
    return &p->scorer;
}

bool tusk_plans_alike(const tusk_plan *one, const tusk_plan *other) {
    return one->same && one->same == other->same;
}

/* --- rows --- */

void tusk_plan_expect_layout(const tusk_plan *p) {
    if (p->layout)
        tusk_layout_expect_places(p->layout);
}

void tusk_plan_expect(const tusk_plan *p, const tusk_named_rows *rows, uint64_t row) {
    if (p->layout)
        tusk_layout_expect(p->layout, rows, row);
    if (p->classes)
        tusk_class_layouts_expect(p->classes, rows, row);
}

bool tusk_plan_margin(tusk_plan *p, tusk_named_rows *rows, uint64_t row, double *margin,
                      bool *null, char *sentence) {
    if (p->layout && !tusk_layout_match(p->layout, rows, &p->scorer, sentence))
        return false;
    if (p->layout && tusk_layout_margin(p->layout, rows, row, margin, null))
        return true;
    *null = false;
    tusk_sparse_row features;
    return tusk_named_match(rows, &p->scorer, sentence) &&
           tusk_named_row(rows, &p->scorer, row, &features, null, sentence) &&
           (*null || tusk_sparse_margin(&p->scorer, &features, true, margin, sentence));
}

bool tusk_plan_margins(tusk_plan *p, tusk_named_rows *rows, uint64_t row, uint64_t n,
                       double *margins) {
    char sentence[TUSK_SENTENCE];
    return p->layout && tusk_layout_match(p->layout, rows, &p->scorer, sentence) &&
           tusk_layout_margins(p->layout, rows, row, n, margins);
}

bool tusk_plan_list(tusk_plan *p, tusk_named_rows *rows, uint64_t row, double *out, bool *null,
                    char *sentence) {
    tusk_scorer *s = &p->scorer;
    if (p->classes && !tusk_class_layouts_match(p->classes, rows, s, sentence))
        return false;
    if (p->classes && tusk_class_layouts_list(p->classes, rows, s, row, out, null))
        return true;
    *null = false;
    tusk_sparse_row features;
    return tusk_named_match(rows, s, sentence) &&
           tusk_named_row(rows, s, row, &features, null, sentence) &&
           (*null || tusk_list(s, &features, NULL, true, 0, out, sentence));
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
    if (!p->packed || n >= WALK_ROWS || d != tusk_tree_features(s))
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

/* --- plans by payload --- */

typedef struct known {
    size_t length; /* of the payload; 0: a free slot */
    char key[KEY_BYTES];
    enum tusk_answer answer;
    const char *address; /* last address of the payload */
    tusk_plan *plan;     /* NULL: it occurred once so far, or has none */
    bool none;           /* it can have none */
} known;

struct tusk_plans {
    known *known;
    size_t room, n;
    size_t bytes;          /* of payloads */
    uint64_t asked, found; /* since the chunk began */
    uint64_t chunks;
    tusk_layouts layouts;
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
            plan_free(&plans->layouts, plans->known[i].plan);
    tusk_layouts_free(&plans->layouts);
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

static bool has_room(const tusk_plans *plans) {
    const tusk_layouts *l = &plans->layouts;
    return plans->bytes + l->bytes + l->lexica.bytes <= MOST_BYTES;
}

void tusk_plans_begin(tusk_plans *plans, tusk_named_rows *rows) {
    bool full = !has_room(plans) || plans->n > MOST_BYTES / 1024;
    if (full && 2 * plans->found < plans->asked)
        forget_all(plans);
    plans->asked = plans->found = 0;
    rows->serial = ++plans->chunks;
}

static uint64_t first_place(const char *key, enum tusk_answer answer) {
    uint64_t word[2];
    memcpy(word, key, sizeof word);
    return tusk_hash_mix(tusk_hash_mix(word[0], word[1]), (uint64_t)answer);
}

void tusk_plans_expect(const tusk_plans *plans, tusk_text payload, enum tusk_answer answer) {
    if (payload.length >= KEY_BYTES)
        __builtin_prefetch(plans->known + (first_place(payload.data, answer) & (plans->room - 1)));
}

static known *place_of(const tusk_plans *plans, const char *key, size_t length,
                       enum tusk_answer answer) {
    for (uint64_t at = first_place(key, answer);; at++) {
        known *k = plans->known + (at & (plans->room - 1));
        if (!k->length ||
            (k->length == length && k->answer == answer && memcmp(k->key, key, KEY_BYTES) == 0))
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
        if (k->length)
            *place_of(&more, k->key, k->length, k->answer) = *k;
    }
    free(plans->known);
    plans->known = more.known;
    plans->room = more.room;
    return true;
}

/* Whether the payload is the plan's. A sort, for example, gives each row its own copy. */
static bool is_of(known *k, tusk_text payload) {
    if (k->address != payload.data && memcmp(k->plan->payload, payload.data, payload.length) != 0)
        return false;
    k->address = payload.data;
    return true;
}

tusk_plan *tusk_plan_of(tusk_plans *plans, tusk_text payload, const tusk_stores *stores,
                        enum tusk_answer answer, uint64_t rows) {
    plans->asked++;
    if (payload.length < KEY_BYTES || (2 * plans->n >= plans->room && !grow(plans)))
        return NULL;
    known *k = place_of(plans, payload.data, payload.length, answer);
    if (k->plan && !is_of(k, payload))
        return NULL;
    if (k->plan) {
        plans->found++;
        __builtin_prefetch(k->plan);
        return k->plan;
    }
    bool again = k->length;
    if (!again) {
        plans->n++;
        *k = (known){.length = payload.length, .answer = answer, .address = payload.data};
        memcpy(k->key, payload.data, KEY_BYTES);
    }
    if ((again || rows >= MANY_ROWS) && !k->none && has_room(plans)) {
        k->plan = plan_new(&plans->layouts, payload, stores, answer);
        k->none = !k->plan;
    }
    if (k->plan) {
        k->address = payload.data;
        plans->bytes += bytes_of(k->plan);
    }
    return k->plan;
}
