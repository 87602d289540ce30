/* Reads a row's labels and features from SQL's types into what packers and scorers read. */
#ifndef TUSK_POSTGRES_FEATURES_H
#define TUSK_POSTGRES_FEATURES_H

#include "../backend.h"

#include "utils/array.h"

#include "../../rowblock/remarks.h"

/* One row's features. values is float if f64 is false, otherwise double. In a sparse row,
 * index[i] is the id of values[i], and the caller must check that n_index equals n. The
 * pointers are valid as long as the datum and the buffer that they were read from. */
typedef struct feature_row {
    bool null; /* the features, or one of them, are NULL */
    bool sparse;
    bool f64;
    int64 n;
    const void *values;
    int64 n_index;
    const int64 *index;
    bool gaps;        /* whether NULLs became NaN; the other numbers are then checked: */
    int64 not_finite; /* the position, from 1 on, of one that is not finite; 0: none */
    bool rounded;     /* whether a numeric was rounded, so that its double may stand for another */
} feature_row;

/* Memory for converted numbers, reused from row to row. All zero bytes means empty. */
typedef struct number_buffer {
    double *items;
    int64 room;
    MemoryContext context; /* the context of the items */
} number_buffer;

/* argument: what to call it in an error, such as "features". */
feature_row read_dense(Datum array, number_buffer *buffer, const char *function,
                       const char *argument);
/* The same with NaN for each NULL in the array. nan_is_gap: whether NaN counts as NULL. */
feature_row read_gaps(Datum array, bool nan_is_gap, number_buffer *buffer, const char *function);
/* Reads a tuskml_sparse_real or tuskml_sparse_double. */
feature_row read_sparse(Datum row, number_buffer *buffer, const char *function);

/* Remarks on the NULLs of such features. */
void remark_gaps(Datum features, bool sparse, tusk_remarks *to);

/* Whether a type is a number or boolean that is read as double; type: without domains. */
bool is_number_type(Oid type);
/* The type itself, or the base type of a domain. */
Oid number_type(Oid type);
double read_number(Datum datum, Oid type);
/* The same; sets *rounded if another number of the type may have the same double. */
double read_number_noted(Datum datum, Oid type, bool *rounded);

/* Makes sparse features. */

/* A value of the composite type that the function returns at this call site; a NULL array
 * becomes a NULL field. */
Datum make_sparse(FunctionCallInfo fcinfo, ArrayType *indices, ArrayType *values);

#endif
