/* What a model that has been read consists of; only what scores rows looks into it. */
#ifndef TUSK_POSTGRES_PREDICTOR_H
#define TUSK_POSTGRES_PREDICTOR_H

#include "predict.h"

#include "utils/memutils.h"

#include "../../scalars/planned/classes.h"

/* What the models of a call site read rows with. */
typedef struct row_reader {
    number_buffer buffer;
    named_reader named;
    tusk_named_rows rows;
    tusk_layouts layouts;
    MemoryContextCallback end;
} row_reader;

/* A model that has been read. What each row needs of it comes first, in one cache line. */
struct predictor {
    Size size;         /* of the bytes */
    const void *bytes; /* of the model that was read last; NULL if none was */
    char pointer[24];  /* these, if they are a pointer to TOAST */
    row_reader *reader;
    uint64 n_named;              /* rows by name that it has scored */
    tusk_class_layouts *layouts; /* NULL: there are none yet, or none of such a model */
    tusk_scorer scorer;
    MemoryContext model;        /* holds the bytes and what the scorer points to */
    int rows;                   /* scored since it was read, up to PACKED_FROM */
    struct tusk_packed *packed; /* its trees from then on; NULL: none, or not in such a form */
    class_names names;          /* for answers by class */
    Size charged;               /* of its call site's kept bytes */
    Size *kept_bytes;           /* these; NULL: the model is not kept */
    MemoryContextCallback end;
};

/* The model of a row, which is read if the rows before brought none with the same bytes. */
predictor *predictor_of(FmgrInfo *called, Datum model, enum tusk_answer answer);

/* What models that are kept may take. */
Size kept_room(void);

/* Raises the error of a scorer, with its SQLSTATE. */
void refuse_answer(const tusk_scorer *s, enum tusk_answer answer, const char *sentence);

#endif
