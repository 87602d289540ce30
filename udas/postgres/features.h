/* Labels and features of a row, from SQL's types to what packers and scorers read. */
#ifndef TUSK_POSTGRES_FEATURES_H
#define TUSK_POSTGRES_FEATURES_H

#include "door.h"

/* One row's features. values is float when f64 is false, else double; of a sparse row index[i] is
 * the id of values[i], and n_index and n must be checked to be equal. Pointers live as long as the
 * datum and the buffer that they were read from. */
typedef struct feature_row {
    bool null; /* the features or one of them is NULL */
    bool sparse;
    bool f64;
    int64 n;
    const void *values;
    int64 n_index;
    const int32 *index;
} feature_row;

/* Room for numbers that must be converted, kept from row to row. All zero bytes is empty. */
typedef struct number_buffer {
    double *items;
    int64 room;
    MemoryContext context; /* where items live */
} number_buffer;

/* argument: what to call it in an error, such as "features". */
feature_row read_dense(Datum array, number_buffer *buffer, const char *function,
                       const char *argument);
/* A tuskml_sparse_real or tuskml_sparse_double. */
feature_row read_sparse(Datum row, number_buffer *buffer, const char *function);

/* A number or a boolean as double; type is what get_fn_expr_argtype says. */
bool is_number_type(Oid type);
double read_number(Datum datum, Oid type);

#endif
