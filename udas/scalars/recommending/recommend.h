/* The items with the highest scores for a user, or most similar to an item, of a matrix
 * factorization. */
#ifndef TUSK_RECOMMEND_H
#define TUSK_RECOMMEND_H

#include "../models/score.h"

/* Basis of the scores. */
enum tusk_basis {
    TUSK_OF_USER,    /* the prediction for the user */
    TUSK_OF_BIASES,  /* an unknown user: the mean and the biases of items */
    TUSK_OF_MEAN,    /* the same without biases: the mean of the users' vectors */
    TUSK_OF_ITEM,    /* the cosine of the factors of two items */
    TUSK_OF_RATINGS, /* the vector that fits the ratings given */
    TUSK_BASES
};
extern const char *const TUSK_BASIS_NAMES[TUSK_BASES];

/* What the scores are for. */
enum tusk_asked { TUSK_FOR_USER, TUSK_FOR_ITEM, TUSK_FOR_RATINGS };
static const char *const TUSK_ASKED_NAMES[] = {"recommend", "similar_items", "recommend_by_items"};

/* Ids are texts, whatever their type in the rows of the training. */
typedef struct tusk_wanted {
    enum tusk_asked asked;
    bool numbers; /* whether items of the result have to be whole numbers */
    tusk_text id; /* of the user or the item */
    int64_t n;
    const tusk_text *exclude; /* ids of items; unknown ones are ignored */
    uint64_t n_exclude;
    /* Of a new user: */
    const tusk_text *rated;
    const double *ratings; /* [n_rated] */
    uint64_t n_rated;
    tusk_text options; /* of the model, as JSON */
} tusk_wanted;

typedef struct tusk_ranked_item {
    uint64_t item;
    double score;
} tusk_ranked_item;

/* Largest number of items in a result. */
uint64_t tusk_most_items(const tusk_scorer *s, const tusk_wanted *w);
/* Bytes of work memory for a result. */
size_t tusk_recommend_work(const tusk_scorer *s, const tusk_wanted *w);

/* A result, in memory of the caller. */
typedef struct tusk_best {
    void *work;
    tusk_ranked_item *items; /* room for tusk_most_items, of which n are written */
    uint64_t n;
    enum tusk_basis basis;
    void (*breathe)(void); /* called now and then, and may not return; NULL: not called */
} tusk_best;

/* Writes the best items, highest score first and ties by the lowest id, of named ones by the most
 * rows. Items that were not in the training are left out. Returns false with a sentence if the
 * model or the arguments are invalid. */
bool tusk_recommend(tusk_scorer *s, const tusk_wanted *w, tusk_best *best, char *sentence);

#define TUSK_ID_TEXT 32
/* The id of an item as the rows of the training had it; in `room` if they had numbers. */
tusk_text tusk_item_text(const tusk_scorer *s, uint64_t item, char room[TUSK_ID_TEXT]);
/* The same as a whole number. False if it is none. */
bool tusk_item_number(const tusk_scorer *s, uint64_t item, int64_t *number);

/* The place of a user's or an item's vector among those of its kind; the number of these if it is
 * unknown. False with a sentence if the model expects a number and the id is none. */
bool tusk_place_of(const tusk_scorer *s, bool item, tusk_text id, uint64_t *place, char *sentence);

/* Numbers of work memory to fold a user in. */
size_t tusk_fold_work(const tusk_scorer *s);
/* Writes the vector of a new user, who gave some items ratings or chose them: the one that
 * minimises the training's objective with the items' vectors fixed, by one least-squares solve.
 * marks: a bit for each item, all 0 at the end; *known: whether one of the items is in the model.
 */
bool tusk_fold_in(tusk_scorer *s, const tusk_wanted *w, double *work, uint64_t *marks,
                  void (*breathe)(void), double *to, bool *known, char *sentence);

#endif
