/* Why a model has no standard errors, and so no p-values. */
#ifndef TUSK_NOTE_H
#define TUSK_NOTE_H

#include "score.h"

/* Fields of a model; data is NULL for a NULL field. */
typedef struct tusk_noted {
    tusk_text task, options, status, store;
} tusk_noted;

#define TUSK_NOTE 160
#define TUSK_NOTE_INTERCEPT "no intercept was fitted"
#define TUSK_NOTE_REFERENCE "the weights of the first class, the reference, are 0"
#define TUSK_NOTE_UNDETERMINED "the rows do not determine this coefficient"

/* For a model without any standard errors. */
void tusk_note_none(const tusk_noted *m, char note[TUSK_NOTE]);
/* The features of absorbed categories, from `first` on, which starts at 1; n is 0 without any. */
typedef struct tusk_absorbed {
    int64_t first, n;
} tusk_absorbed;
tusk_absorbed tusk_absorbed_in(tusk_text options);
static inline bool tusk_is_absorbed(tusk_absorbed a, int64_t feature) {
    return feature >= a.first && feature < a.first + a.n;
}
/* For the intercept of such a model, which is that of the first level of each. */
void tusk_note_absorbed(tusk_text options, char note[TUSK_NOTE]);
/* Whether an intercept was fitted. */
bool tusk_has_intercept(tusk_text options);

#endif
