/* auc: the scores of all rows by label, ranked at the end. */
#ifndef TUSK_AUC_H
#define TUSK_AUC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sentence.h"

/* The scores of the rows with one label. They are kept as integers that sort like the scores do.
 */
typedef struct tusk_scores {
    double label;
    uint64_t *keys;
    int64_t n, capacity;
} tusk_scores;

/* A list is in use when it has keys, and the first is in use before the second. All zero bytes is
 * no rows. The door frees the keys. */
typedef struct tusk_auc {
    tusk_scores lists[2];
} tusk_auc;

/* How the door makes room: like realloc, NULL when memory is out. */
typedef struct tusk_grow {
    void *(*grow)(void *memory, size_t bytes, void *context);
    void *context;
} tusk_grow;

/* False with a sentence. */
bool tusk_auc_take(tusk_auc *s, double y, double score, tusk_grow room, char *sentence);
/* The source stays as it was. */
bool tusk_auc_merge(tusk_auc *target, const tusk_auc *source, tusk_grow room, char *sentence);

/* There is an answer when there are rows of two labels. */
bool tusk_auc_known(const tusk_auc *s);
/* Bytes of work that the answer needs. */
size_t tusk_auc_work(const tusk_auc *s);
/* Leaves the state as it was: a window asks one that others combine from, or that goes on.
 * breathe, when it is not NULL, is called now and then and may not return. */
double tusk_auc_give(const tusk_auc *s, uint64_t *work, void (*breathe)(void));

#endif
