/* Metrics of ranked scores: numbers, and curves as tables. */
#ifndef TUSK_CURVES_H
#define TUSK_CURVES_H

#include "scored.h"
#include "table.h"

/* A metric that is a number; sets *null if the rows do not determine it. k: how many of the
 * highest scores count, for metrics at k. Overwrites the ranks. */
double tusk_ranks_number(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t k, bool *null);

/* The columns of roc_curve, calibration or lift; NULL if the metric is a number. */
const tusk_table *tusk_ranking_table(enum tusk_ranking_kind kind);
/* Whether the rows determine a table. */
bool tusk_ranks_known(const tusk_ranks *r, enum tusk_ranking_kind kind);
/* Writes the table; false if the writer stopped it. bins: for calibration. */
bool tusk_ranks_write(const tusk_ranks *r, enum tusk_ranking_kind kind, int64_t bins,
                      tusk_writer to);

#endif
