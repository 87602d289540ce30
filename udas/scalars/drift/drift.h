/* Drift of features: how far rows are from those that a model was trained on, whose histogram it
 * keeps (its field `histogram`, which kernels/native/rows/histogram.cpp writes). */
#ifndef TUSK_DRIFT_H
#define TUSK_DRIFT_H

#include "../metrics/scored.h"
#include "../metrics/table.h"
#include "../named/named.h"

#define TUSK_HISTOGRAM_VERSION 1

/* A histogram and the counts of other rows in its bins, as one piece of bytes that may be copied.
 */
typedef struct tusk_drift tusk_drift;

/* A row of features: either one by name, or a list. */
typedef struct tusk_drift_row {
    const tusk_named_rows *named;
    uint64_t at;              /* its index in `named` */
    const void *x;            /* of a list, the numbers from `first` on; NaN: NULL */
    const uint64_t *validity; /* a bit for each number; NULL: they have none */
    uint64_t first, n;
    bool f64;
    double weight;
} tusk_drift_row;

/* Starts counts without rows in memory from `room`. NULL with a sentence if the text is not one of
 * train_model, or if memory is out. */
tusk_drift *tusk_drift_new(tusk_text histogram, tusk_grow room, char *sentence);
size_t tusk_drift_size(const tusk_drift *d);
/* Whether bytes of this length may be those of counts. */
bool tusk_drift_fit(const void *bytes, size_t size);
/* Whether counts are of this histogram; false with a sentence. */
bool tusk_drift_of(const tusk_drift *d, tusk_text histogram, char *sentence);

/* Adds a row; one of weight 0 changes nothing. False with a sentence. */
bool tusk_drift_add(tusk_drift *d, const tusk_drift_row *row, char *sentence);
/* Leaves the source unchanged. False with a sentence if the histograms differ. */
bool tusk_drift_merge(tusk_drift *target, const tusk_drift *source, char *sentence);

/* A row per feature. psi: the population stability index over the deciles of the training, or over
 * the levels of a category. ks_low, ks_high: between these is the largest distance between the
 * distribution functions of a number, which is known at the edges of bins. */
extern const tusk_table TUSK_DRIFT_TABLE;
void tusk_drift_write(const tusk_drift *d, tusk_writer writer);

#define TUSK_NO_HISTOGRAM                                                                         \
    "the model has no histogram, which rows are compared with: expected one trained with option " \
    "{\"histogram\": true}"
/* The status of a model of invalid rows, which has none. */
#define TUSK_INVALID_ROWS "invalid rows"

#endif
