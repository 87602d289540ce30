/* The items with the highest scores for a user, or most similar to an item, of a matrix
 * factorization. */
#ifndef TUSK_RECOMMEND_H
#define TUSK_RECOMMEND_H

#include "../models/score.h"

/* Basis of the scores. */
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
    const double *exclude; /* ids of items; invalid ones are ignored */
    uint64_t n_exclude;
} tusk_wanted;

typedef struct tusk_ranked_item {
    uint64_t item;
    double score;
} tusk_ranked_item;

/* Largest number of items in a result. */
uint64_t tusk_most_items(const tusk_scorer *s, const tusk_wanted *w);
/* Bytes of work memory for a result. */
size_t tusk_recommend_work(const tusk_scorer *s);

/* A result, in memory of the caller. */
typedef struct tusk_best {
    void *work;
    tusk_ranked_item *items; /* room for tusk_most_items, of which n are written */
    uint64_t n;
    enum tusk_basis basis;
    void (*breathe)(void); /* called now and then, and may not return; NULL: not called */
} tusk_best;

/* Writes the best items, highest score first and ties by the lowest id. Items that were not in
 * the training are left out. Returns false with a sentence if the model or the arguments are
 * invalid. */
bool tusk_recommend(tusk_scorer *s, const tusk_wanted *w, tusk_best *best, char *sentence);

#endif
