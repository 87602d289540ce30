/* What the metrics' aggregates share. */
#ifndef TUSK_POSTGRES_METRICS_H
#define TUSK_POSTGRES_METRICS_H

#include "features.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

enum metric_argument { A_STATE, A_LABEL, A_PREDICTED };

/* The row of a transition, as numbers; false when it has a NULL. */
bool read_row(FunctionCallInfo fcinfo, double *label, double *predicted);
void refuse_row(const char *name, const char *sentence);

#endif
