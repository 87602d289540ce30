/* The models that a call site has seen, found by their bytes. Joined rows have another model
 * each time, and the memory of many models exceeds the processor's cache. So an entry is one
 * cache line, with all that is needed to recognise a model and to prefetch its memory. */
#ifndef TUSK_POSTGRES_NOTED_H
#define TUSK_POSTGRES_NOTED_H

#include "predictor.h"

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
