/* Declarations shared by the transitions of metrics that are sums. */
#ifndef TUSK_POSTGRES_SUMS_H
#define TUSK_POSTGRES_SUMS_H

#include "../features/features.h"

#include "../../scalars/metrics/metric.h"

/* Adds a row to the transition's state, and returns the state. */
Datum take_judged(FunctionCallInfo fcinfo, enum tusk_metric_kind kind, const tusk_judged *row);

#endif
