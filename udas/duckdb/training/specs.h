/* The (task, options) texts of the groups alive. Each distinct text has one object, so that
 * states compare pointers. */
#ifndef TUSK_SPECS_H
#define TUSK_SPECS_H

#include "../../scalars/named/gaps.h"
#include "../any_type.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct spec_table spec_table;

typedef struct spec {
    char *task;
    char *options;
    size_t task_length, options_length;
    spec_table *table;
    struct spec *next;
    size_t bucket;
    int references;
    bool labelled;             /* whether rows have labels */
    bool ordered;              /* whether labels are */
    bool documents;            /* whether rows are documents */
    bool ids;                  /* whether the columns of rows with names are ids */
    enum tusk_kept_gaps gaps;  /* which rows with a NULL are used: option `missing` */
    enum tusk_invalid invalid; /* treatment of rows with a fault: option `invalid` */
    bool merges;               /* whether equal rows may become one */
} spec;

typedef struct text {
    const char *data;
    size_t length;
} text;

spec_table *spec_table_new(void);
void spec_table_free(spec_table *table);
/* The spec with these texts, with one more reference; NULL if memory is out. */
spec *spec_intern(spec_table *table, text task, text options);
void spec_retain(spec *s);
void spec_release(spec *s);

/* Options of a training as SQL has them: JSON text, a STRUCT such as {'l2': 0.1}, or a MAP whose
 * keys are text. */

/* Options as text, (n,). False if they are of another type, if one of their values has a type
 * that JSON lacks, or if memory runs out (see scratch). */
bool options_of_any(duckdb_vector v, idx_t n, scratch *s, column *options);

#endif
