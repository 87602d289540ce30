/* Members of a read model; used by scoring code only. */
#ifndef TUSK_POSTGRES_PREDICTOR_H
#define TUSK_POSTGRES_PREDICTOR_H

#include "predict.h"

#include "utils/memutils.h"

#include "../../scalars/planned/classes.h"

/* Readers for the rows of a call site's models. */
typedef struct row_reader {
    number_buffer buffer;
    named_reader named;
    tusk_named_rows rows;
    tusk_layouts layouts;
    MemoryContextCallback end;
} row_reader;

/* A model that has been read. The members that each row needs come first, in one cache line. */
struct predictor {
    Size size;         /* of the bytes */
    const void *bytes; /* of the model that was read last; NULL if none was */
    char pointer[24];  /* these, if they are a TOAST pointer */
    row_reader *reader;
    uint64 n_named;              /* number of rows by name that it has scored */
    tusk_class_layouts *layouts; /* NULL: none yet, or not available for such a model */
    tusk_scorer scorer;
    tusk_text payload;          /* which it was read from */
    MemoryContext model;        /* owns the bytes and the memory of the scorer */
    double offset;              /* of the row, added to its margin */
    int rows;                   /* scored since it was read, up to PACKED_FROM */
    struct tusk_packed *packed; /* its packed trees from then on; NULL: none, or not available */
    class_names names;          /* for results by class */
    Size charged;               /* charged to its call site's kept bytes */
    Size *kept_bytes;           /* these; NULL: the model is not kept */
    MemoryContextCallback end;
};

/* The model of a row, which is read unless an earlier row had the same bytes. */
predictor *predictor_of(FmgrInfo *called, Datum model, enum tusk_answer answer);

/* The features of a row, either by id or as n numbers; and the reader of rows by name, if it is
 * one of them, whose columns are matched. */
typedef struct read_row_of {
    tusk_sparse_row ids;
    feature_row list;
    tusk_named_rows *named;
} read_row_of;

/* Reads the features of a row; false if one of them is NULL. Rows by name may have NULLs. */
bool read_features(predictor *p, Datum features, enum tusk_answer answer, enum feature_form form,
                   read_row_of *found);

/* Limit on the memory of kept models. */
Size kept_room(void);

/* Raises the error of a scorer, with its SQLSTATE. */
void refuse_answer(const tusk_scorer *s, enum tusk_answer answer, const char *sentence);

#endif
