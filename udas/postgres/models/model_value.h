/* Reads the fields of a tuskml_model that predictions need. */
#ifndef TUSK_POSTGRES_MODEL_VALUE_H
#define TUSK_POSTGRES_MODEL_VALUE_H

#include "predict.h"
#include "predictor.h"

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

/* The models that a call site has seen, found by their bytes. Joined rows have another model
 * each time, and the memory of many models exceeds the processor's cache. So an entry is one
 * cache line, with all that is needed to recognise a model and to prefetch its memory. */

/* A model seen before. */
typedef struct noted_model {
    uint64 hash;              /* of the bytes; 0: a free slot */
    predictor *kept;          /* NULL: there has been no room for it */
    tusk_class_layouts *laid; /* of this one, NULL: none yet */
    const tusk_layout *first; /* the first of these */
    char pointer[24];         /* the bytes of a model that was read, if they are a TOAST pointer */
    bool is_pointer;
} noted_model;

typedef struct noted_models {
    MemoryContext context; /* set before the first model */
    noted_model *place;    /* NULL: none */
    void *memory;          /* context of the entries */
    uint32 n, mask;
} noted_models;

/* The entry of a model; *again is false for a new one. NULL if there are too many. Valid until
 * the next call. */
noted_model *note_model(noted_models *all, const struct varlena *bytes, bool *again);

/* Records that the model has been read into its predictor. */
void note_read(noted_model *noted, const struct varlena *bytes);

/* Whether these are the bytes that were read; false also if they are not a TOAST pointer.
 * Prefetches the memory that scoring a row reads. */
bool recognise(noted_model *noted, const struct varlena *bytes);

#endif
