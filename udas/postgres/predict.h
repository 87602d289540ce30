/* A model that was read, and what it says of a row. */
#ifndef TUSK_POSTGRES_PREDICT_H
#define TUSK_POSTGRES_PREDICT_H

#include "features.h"

#include "../scalars/score.h"

typedef struct predictor predictor;

/* Lives as long as the context, and needs read_model before it can score. */
predictor *new_predictor(MemoryContext context);

/* bytes: a tuskml_model, in the row or where TOAST keeps it; they are copied. */
void read_model(predictor *p, const struct varlena *bytes, enum tusk_answer answer);

/* features: a datum, and whether it is NULL. */
NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             bool sparse);

#endif
