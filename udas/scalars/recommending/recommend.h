/* The items with the highest scores for a user, or most similar to an item, of a matrix
 * factorization. */
#ifndef TUSK_RECOMMEND_H
#define TUSK_RECOMMEND_H

#include "../models/score.h"

/* What the scores are made of. */
enum tusk_basis {
    TUSK_OF_USER,   /* the prediction for the user */
    TUSK_OF_BIASES, /* an unknown user: the mean and the biases of items */
    TUSK_OF_MEAN,   /* the same without biases: the mean of the users' vectors */
    TUSK_OF_ITEM,   /* the cosine of the factors of two items */
    TUSK_BASES
};
extern const char *const TUSK_BASIS_NAMES[TUSK_BASES];

typedef struct tusk_wanted {
    bool similar; /* to an item; otherwise for a user */
    double id;
    int64_t n;
    const double *exclude; /* ids of items, of which those that are none do not matter */
    uint64_t n_exclude;
} tusk_wanted;

typedef struct tusk_ranked_item {
    uint64_t item;
    double score;
} tusk_ranked_item;

/* Items that an answer has at most. */
uint64_t tusk_most_items(const tusk_scorer *s, const tusk_wanted *w);
/* Bytes of work memory that an answer needs. */
size_t tusk_recommend_work(const tusk_scorer *s);

/* An answer, in memory of the caller's. */
typedef struct tusk_best {
    void *work;
    tusk_ranked_item *items; /* room for tusk_most_items, of which n are written */
    uint64_t n;
    enum tusk_basis basis;
    void (*breathe)(void); /* called now and then, and may not return; NULL: not */
} tusk_best;

/* Writes the best items, highest score first and of equal ones the lowest id. Items that were not
 * in the training are none of them. Returns false with a sentence if the model or the arguments
 * are refused. */
bool tusk_recommend(tusk_scorer *s, const tusk_wanted *w, tusk_best *best, char *sentence);

#endif
