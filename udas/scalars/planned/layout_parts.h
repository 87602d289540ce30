/* What a layout consists of; only what makes layouts and what scores rows looks into it. */
#ifndef TUSK_LAYOUT_PARTS_H
#define TUSK_LAYOUT_PARTS_H

#include "layout.h"

/* A column of numbers has one weight. One of categories has a weight for each level in its
 * lexicon, and behind them one for all other levels. Where the lexicon has far more levels than
 * the model, it has a hash table of pairs instead: the level's number and its weight. */
#define PAIRS UINT32_MAX /* of levels: there are pairs */
#define NO_PAIR (-1.0)

/* The head of pairs: their number of places, and what other levels weigh. */
#define PAIRS_HEAD 2

typedef struct shaped {
    tusk_lexicon *lexicon;
    uint32_t part;
    bool text, category;
} shaped;

/* What models of the same columns have in common. */
typedef struct tusk_shape {
    struct tusk_shape *next;
    const void *schema; /* of the rows that it was matched with last */
    bool fits;          /* whether they have numbers and text where the models have */
    uint32_t n_columns;
    uint32_t *match; /* [n_columns] */
    uint32_t *level; /* [n_columns] of the row whose levels were looked up last */
    shaped column[];
} tusk_shape;

/* Where the weights of a column are. */
typedef struct place {
    uint32_t at, n; /* n: levels, or PAIRS */
} place;

/* One piece of memory: the places, then the weights, those of numbers first. */
struct tusk_layout {
    tusk_shape *shape;
    double intercept;
    double *weight;
    double *gap; /* [n_columns] what a NULL adds */
    bool skips_gaps;
    size_t bytes;
    place column[];
};

static inline uint32_t place_of_pair(uint32_t level, uint32_t size) {
    return (level * UINT32_C(0x9E3779B1) >> 7) & (size - 1);
}

#endif
