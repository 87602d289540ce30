/* The models that a call site has seen, found by their bytes.
 *
 * Rows that are joined with their models bring another one each time, and what many models take
 * does not stay in the processor's cache. So an entry is one cache line, which has all that is
 * needed to recognise a model and to ask for its memory.
 */
#ifndef TUSK_POSTGRES_NOTED_H
#define TUSK_POSTGRES_NOTED_H

#include "predictor.h"

/* A model that came before. */
typedef struct noted_model {
    uint64 hash;              /* of the bytes; 0: a free place */
    predictor *kept;          /* NULL: there was no room for it so far */
    tusk_class_layouts *laid; /* of this one, NULL: none yet */
    const tusk_layout *first; /* of these */
    char pointer[24]; /* the bytes of a model that was read, if they are a pointer to TOAST */
    bool is_pointer;
} noted_model;

typedef struct noted_models {
    MemoryContext context; /* to be set before the first model comes */
    noted_model *place;    /* NULL: none */
    void *memory;          /* in which these are */
    uint32 n, mask;
} noted_models;

/* The entry of a model, which is new unless *again; NULL if there are too many. Valid until the
 * next call. */
noted_model *note_model(noted_models *all, const struct varlena *bytes, bool *again);

/* Notes that the model has been read into its predictor. */
void note_read(noted_model *noted, const struct varlena *bytes);

/* Whether these are the bytes that were read; false also where they are no pointer to TOAST. Asks
 * for the memory that scoring a row will read. */
bool recognise(noted_model *noted, const struct varlena *bytes);

#endif
