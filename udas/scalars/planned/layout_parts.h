/* Members of a layout; used by code that builds layouts and that scores rows only. */
#ifndef TUSK_LAYOUT_PARTS_H
#define TUSK_LAYOUT_PARTS_H

#include "layout.h"

/* A column of numbers has one weight. One of categories has a weight for each level in its
 * lexicon, followed by one for all other levels. If the lexicon has far more levels than the
 * model, it has a hash table of pairs instead: the level's number and its weight. */
#define PAIRS UINT32_MAX /* of levels: there are pairs */
#define NO_PAIR (-1.0)

/* The head of pairs: the number of slots, and the weight of other levels. */
#define PAIRS_HEAD 2

typedef struct shaped {
    tusk_lexicon *lexicon;
    uint32_t part;
    bool text, category;
} shaped;

/* Data common to models of the same columns. */
typedef struct tusk_shape {
    struct tusk_shape *next;
    const void *schema; /* of the rows that it was matched with last */
    bool fits;          /* whether they have numbers and text as in the models */
    uint32_t n_columns;
    uint32_t *match; /* [n_columns] */
    uint32_t *level; /* [n_columns] of the row whose levels were looked up last */
    shaped column[];
} tusk_shape;

/* Offset of the weights of a column. */
typedef struct place {
    uint32_t at, n; /* n: levels, or PAIRS */
} place;

/* One block of memory: the places, then the weights, those of numbers first. */
struct tusk_layout {
    tusk_shape *shape;
    double intercept;
    double *weight;
    double *gap; /* [n_columns] weight of a NULL */
    bool skips_gaps;
    size_t bytes;
    place column[];
};

static inline uint32_t place_of_pair(uint32_t level, uint32_t size) {
    return (level * UINT32_C(0x9E3779B1) >> 7) & (size - 1);
}

#endif
