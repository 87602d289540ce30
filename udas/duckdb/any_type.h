/* Arguments of any type: numbers of all types as the packer and the scorers read them, and a
 * sentence on whatever is neither.
 *
 * A parameter of type ANY costs DuckDB's binder less than any cast, so that overloads with it take
 * each call that has not exactly the types of another one. Without them DuckDB would answer a
 * wrong call with the full types of all candidates.
 */
#ifndef TUSK_ANY_TYPE_H
#define TUSK_ANY_TYPE_H

#include "door.h"

#define REFUSAL_ROOM 1200

#define PIECES 24

/* What converted columns of one chunk point into. */
typedef struct scratch {
    void *piece[PIECES];
    int n;
    bool out_of_memory;
} scratch;

/* Room of that many bytes, all 0. */
void *piece(scratch *s, idx_t bytes);
void scratch_free(scratch *s);

/* Each is false where the type is none of those, or out of memory (scratch). The numbers are those
 * of a cast to DOUBLE. n: rows. */

/* Booleans, or numbers as DOUBLE. */
bool label_of_any(duckdb_vector v, idx_t n, scratch *s, column *label, bool *boolean);
/* A LIST or an ARRAY of numbers, or a STRUCT(indices, values) of them; FLOAT stays FLOAT. */
bool features_of_any(duckdb_vector v, idx_t n, scratch *s, feature_column *features);
bool text_of_any(duckdb_vector v, idx_t n, scratch *s, column *text);
/* Numbers, and a LIST or an ARRAY of them. f64 NULL: as DOUBLE; else whether they are, or FLOAT.
 */
bool numbers_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *f64);
bool numbers_list_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l, bool *f64);

/* Rows that are all NULL, of items of at most 16 bytes. */
bool all_null(idx_t n, scratch *s, column *c);

/* A sentence on a call of this function: the types it got, and what it takes. */
void write_refusal(const char *name, duckdb_data_chunk chunk, char text[REFUSAL_ROOM]);

/* Adds overloads with fewer and more arguments than `arguments`, which refuse them. */
bool add_refusals(duckdb_scalar_function_set set, const char *name, idx_t arguments);

#endif
