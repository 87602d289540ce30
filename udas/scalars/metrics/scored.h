/* The metrics that need all rows' scores by label and rank them at the end. */
#ifndef TUSK_SCORED_H
#define TUSK_SCORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sentence.h"

/* The scores of the rows with one label, stored as integers that sort like the scores. */
typedef struct tusk_scores {
    double label;
    uint64_t *keys;
    int64_t n, capacity;
} tusk_scores;

/* A list is in use if it has keys; the first list is used before the second. All zero bytes
 * means no rows. The caller frees the keys. */
typedef struct tusk_scored {
    tusk_scores lists[2];
    int64_t bins; /* 0: not known yet */
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
    TUSK_CALIBRATION,
    TUSK_LIFT,
    TUSK_RANKINGS
};

#define TUSK_MOST_BINS 1000
#define TUSK_BINS 10 /* default if the caller gives none */

typedef struct tusk_ranking {
    const char *name;
    bool coded; /* labels are booleans, 0 and 1, or -1 and +1; otherwise any two */
    bool bins;  /* scores are probabilities, in bins */
} tusk_ranking;

const tusk_ranking *tusk_ranking_of(enum tusk_ranking_kind kind);

/* Adds a row; false with a sentence if it is refused. bins: for a ranking with bins. */
bool tusk_scored_take(tusk_scored *s, const tusk_ranking *r, double y, double score, int64_t bins,
                      tusk_grow room, char *sentence);
/* Leaves the source unchanged. */
bool tusk_scored_merge(tusk_scored *target, const tusk_scored *source, const tusk_ranking *r,
                       tusk_grow room, char *sentence);

/* Keys sort like numbers: a negative number has all its bits flipped, any other only the sign.
 * -0 has the key of 0. */
uint64_t tusk_key_of(double x);
double tusk_of_key(uint64_t key);

/* The keys of the rows with the higher label, and of the others, both in ascending order. */
typedef struct tusk_ranks {
    const uint64_t *positive, *negative;
    int64_t n_positive, n_negative;
} tusk_ranks;

/* The bytes of work memory that ranking needs. */
size_t tusk_scored_work(const tusk_scored *s);
/* Leaves the state unchanged, because in a window other states combine from it or it goes on.
 * The ranks lie in work. breathe, if not NULL, is called now and then and may not return. */
tusk_ranks tusk_rank(const tusk_scored *s, uint64_t *work, void (*breathe)(void));

#endif
