/* The metrics that need all rows' scores by label and rank them at the end. */
#ifndef TUSK_SCORED_H
#define TUSK_SCORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sentence.h"

/* The scores of the rows with one label, stored as integers that sort like the scores, and the
 * rows' weights; weights is NULL if all weigh 1. */
typedef struct tusk_scores {
    double label;
    uint64_t *keys;
    double *weights;
    int64_t n, capacity;
} tusk_scores;

/* A list is in use if it has keys; the first list is used before the second. All zero bytes
 * means no rows. The caller frees keys and weights. */
typedef struct tusk_scored {
    tusk_scores lists[2];
    int64_t bins;  /* or k; 0: not known yet */
    bool weighted; /* set before the first row, if rows have weights */
} tusk_scored;

/* How the caller allocates memory: like realloc; returns NULL if memory is out. */
typedef struct tusk_grow {
    void *(*grow)(void *memory, size_t bytes, void *context);
    void *context;
} tusk_grow;

enum tusk_ranking_kind {
    TUSK_AUC,
    TUSK_AVERAGE_PRECISION,
    TUSK_ROC_CURVE,
    TUSK_PRECISION_RECALL,
    TUSK_CALIBRATION,
    TUSK_LIFT,
    TUSK_NDCG,
    TUSK_PRECISION_AT_K,
    TUSK_RECALL_AT_K,
    TUSK_AVERAGE_PRECISION_AT_K,
    TUSK_KS,
    TUSK_PSI,
    TUSK_RANKINGS
};

#define TUSK_MOST_BINS 1000
#define TUSK_BINS 10            /* default if the caller gives none */
#define TUSK_ALL_ROWS INT64_MAX /* k if the caller gives none */

typedef struct tusk_ranking {
    const char *name;
    bool coded; /* labels are booleans, 0 and 1, or -1 and +1; otherwise any two */
    bool bins;  /* scores are probabilities, in bins */
    bool at_k;  /* only the k highest scores count; `bins` is k */
    /* Labels are gains of 0 or more. They are stored as weights, in one list. */
    bool graded;
} tusk_ranking;

/* Whether a third argument, bins or k, may be given, and its default. */
static inline bool tusk_has_bins(const tusk_ranking *r) {
    return r->bins || r->at_k;
}
static inline int64_t tusk_default_bins(const tusk_ranking *r) {
    return r->at_k ? TUSK_ALL_ROWS : TUSK_BINS;
}

const tusk_ranking *tusk_ranking_of(enum tusk_ranking_kind kind);

/* A row: bins is for a ranking with bins; weight is 1 unless the state is weighted. */
typedef struct tusk_ranked {
    double y, score;
    int64_t bins;
    double weight;
} tusk_ranked;

/* Adds a row; a row of weight 0 changes nothing. False with a sentence if it is invalid. */
bool tusk_scored_take(tusk_scored *s, const tusk_ranking *r, const tusk_ranked *row,
                      tusk_grow room, char *sentence);
/* Leaves the source unchanged. */
bool tusk_scored_merge(tusk_scored *target, const tusk_scored *source, const tusk_ranking *r,
                       tusk_grow room, char *sentence);

/* Keys sort like numbers: a negative number has all its bits flipped, any other only the sign.
 * -0 has the key of 0. */
uint64_t tusk_key_of(double x);
double tusk_of_key(uint64_t key);

/* Rows with one label: their keys in ascending order, and if rows have weights these in the
 * same order and top[c], the sum of the weights of the c highest keys. */
typedef struct tusk_side {
    const uint64_t *keys;
    const double *weights, *top; /* NULL: all weigh 1 */
    int64_t n;
} tusk_side;

/* The rows with the higher label, and the others. */
typedef struct tusk_ranks {
    tusk_side positive, negative;
} tusk_ranks;

/* The bytes of work memory that ranking needs. */
size_t tusk_scored_work(const tusk_scored *s);
/* Leaves the state unchanged, because in a window other states combine from it or it is
 * continued. The ranks are in work. breathe, if not NULL, is called now and then and may not
 * return. */
tusk_ranks tusk_rank(const tusk_scored *s, uint64_t *work, void (*breathe)(void));

#endif
