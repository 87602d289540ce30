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

/* COLUMNS: a row with names whose columns are arguments, behind their names and, for
 * COLUMNS_OF_CLASS, behind a class; the datum is a pointer to given_columns. */
enum feature_form { DENSE, SPARSE, NAMED, COLUMNS, COLUMNS_OF_CLASS };

/* The names of a model's classes. */
typedef struct class_names {
    MemoryContext context; /* lives as long as the model is kept */
    int n;                 /* 0: the model has none */
    Datum *name;
    bool *null;
    char *asked; /* the class requested last, NULL: none, and its index from 0 */
    int place;
} class_names;

/* The form of features of a type, for a model of another; a type that is neither an array nor
 * sparse has to be a row. */
enum feature_form form_of(Oid type, Oid model);

/* features: a datum, and whether it is NULL. */
NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form);

/* The list of numbers of a call's row, (n,), and the names of the classes of its model; NULL if it
 * has none. */
const double *score_list(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form,
                         int *n, class_names **names);
/* The index of a row's class among its model's class names, from 1; 0: none. */
int score_class(FunctionCallInfo fcinfo, enum feature_form form, class_names **names);
/* The same of the margin plus the call's third argument. */
int score_class_with_offset(FunctionCallInfo fcinfo, enum feature_form form, class_names **names);

#endif
