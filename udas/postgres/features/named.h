/* Composite values and records as features: their columns as numbers and as text. */
#ifndef TUSK_POSTGRES_NAMED_H
#define TUSK_POSTGRES_NAMED_H

#include "features.h"

#include "access/tupdesc.h"

#include "../../scalars/named/pack.h"

/* Reads rows, usually all of one type. All zero bytes but the context means new. */
typedef struct named_reader {
    MemoryContext context;      /* outlives all rows */
    MemoryContext type_context; /* for data of the type of the last row */
    Oid type;
    int32 typmod;
    enum tusk_label_text text_label;
    bool trains; /* whether columns need names that differ in more than case */
    TupleDesc row;
    int *attribute;   /* index of each column in the type */
    Oid *base;        /* its type without domains */
    FmgrInfo *output; /* of columns that are text by their output function */
    uint8 *reading;   /* how each is read */
    Datum *values;
    bool *nulls;
    double *numbers;
    tusk_text *texts;
    uint64 *valid, *rounded;
    tusk_named_chunk chunk; /* of one row */
} named_reader;

/* Whether a type has columns with names. */
bool is_row_type(Oid type);

/* Reads a row; the chunk is valid until the next call, and as long as the datum. Raises an error
 * that names a column if its type cannot be a feature and the reader trains; for predictions such
 * a column has neither numbers nor text. */
const tusk_named_chunk *read_named(named_reader *reader, Datum row, const char *function);

/* Columns of a call as separate arguments, and their names. */
typedef struct given_columns {
    FunctionCallInfo call;
    int names; /* index of the argument that has them as text[], the same in all calls */
    int first; /* index of the first column */
} given_columns;

/* Reads a row from such columns, of the same types and names in all calls. Valid as above. */
const tusk_named_chunk *read_columns(named_reader *reader, const given_columns *given,
                                     const char *function);

/* The schema of rows that are lists with text labels. */
const tusk_schema *schema_of_labels(enum tusk_label_text text);

/* The values of an ENUM in its order, and none of other types; in the current context. */
tusk_label_values values_of_enum(Oid type);

/* Whether values of a type are labels by their text: text, enums and the like. */
bool is_text_type(Oid type);
/* The text of such a value, in UTF-8. */
tusk_text read_text(Datum value, Oid type, FmgrInfo *output);
/* Finds the output function that read_text needs. */
void find_output(Oid type, FmgrInfo *output, MemoryContext context);

#endif
