/* Error sentences about calls whose arguments have the wrong types. */
#ifndef TUSK_POSTGRES_REFUSALS_H
#define TUSK_POSTGRES_REFUSALS_H

#include "../backend.h"

/* The transition of an aggregate whose features have a type that it cannot train on. A skipped
 * row has no features, so their type is not rejected yet. */
Datum refuse_features(FunctionCallInfo fcinfo);

/* Raises the error of a prediction whose features have such a type. */
void refuse_prediction(FunctionCallInfo fcinfo, const char *name);

#endif
