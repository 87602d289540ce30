/* A model that has been read, and its predictions for a row. */
#ifndef TUSK_POSTGRES_PREDICT_H
#define TUSK_POSTGRES_PREDICT_H

#include "../features/named.h"

#include "../../scalars/models/score.h"

typedef struct predictor predictor;

/* Lives as long as the context, and needs read_model before it can score. */
predictor *new_predictor(MemoryContext context);

/* bytes: a tuskml_model, either in the row or as a TOAST pointer; they are copied. */
void read_model(predictor *p, const struct varlena *bytes, enum tusk_answer answer);

enum feature_form { DENSE, SPARSE, NAMED };

/* features: a datum, and whether it is NULL. */
NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form);

#endif
