/* Reads the fields of a tuskml_model that predictions need. */
#ifndef TUSK_POSTGRES_MODEL_VALUE_H
#define TUSK_POSTGRES_MODEL_VALUE_H

#include "predict.h"

/* The payload of a model, in the current context or in the value itself, which is a tuskml_model
 * or the TOAST pointer to one; its data is NULL if there is none. names: set to the model's class
 * names; NULL: not wanted. */
tusk_text read_payload(void *value, class_names *names);

/* The names of a model's features, in the current context; n is 0 if it has none. */
class_names read_feature_names(void *value);

/* The histogram of a model, in the current context; its data is NULL if the model's rows were
 * invalid. Raises an error if it was trained without one. */
tusk_text read_histogram(void *value);

/* The bytes that identify a model: its value in the row, or its TOAST pointer. An address in
 * memory does not identify it, because it may be reused for another model. */
struct varlena *telling_bytes(Datum model);

#endif
