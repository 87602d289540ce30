/* Arguments of any type: converts numbers of all types to what the packer and the scorers read,
 * and writes an error sentence about arguments that are neither.
 *
 * DuckDB's binder gives a parameter of type ANY a lower cost than any cast. So an overload with
 * ANY parameters takes every call that does not match another overload's types exactly. Without
 * these overloads, DuckDB would answer a wrong call with the full types of all candidates.
 */
#ifndef TUSK_ANY_TYPE_H
#define TUSK_ANY_TYPE_H

#include "database.h"

#define REFUSAL_ROOM 1200

/* Memory that the converted columns of one chunk point into. */
typedef struct scratch {
    void **piece;
    size_t n, room;
    bool out_of_memory;
} scratch;

/* Allocates `bytes` bytes, all 0. */
void *piece(scratch *s, idx_t bytes);
void scratch_free(scratch *s);

/* Each function returns false if the type is not supported, or if memory runs out (see
 * scratch). Numbers are converted as by a cast to DOUBLE. n: rows. */

/* Booleans, or numbers as DOUBLE; the column notes those that were rounded. */
bool label_of_any(duckdb_vector v, idx_t n, scratch *s, column *label, bool *boolean);
/* A LIST or an ARRAY of numbers, or a STRUCT(indices, values) of two such lists; FLOAT stays
 * FLOAT. */
bool features_of_any(duckdb_vector v, idx_t n, scratch *s, feature_column *features);
/* A LIST or an ARRAY whose items `item_reader` reads. */
typedef bool (*item_reader)(duckdb_vector items, idx_t n, scratch *s, column *c, bool *f64);
bool list_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l, item_reader read,
                 bool *f64);
bool text_of_any(duckdb_vector v, idx_t n, scratch *s, column *text);
/* Numbers, and a LIST or an ARRAY of numbers. If f64 is NULL, they become DOUBLE; otherwise
 * FLOAT stays FLOAT, and *f64 says which they are.
 */
bool numbers_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *f64);
bool numbers_list_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l, bool *f64);

/* Bytes of a value in a vector's data: for a text its string_t, for a LIST its entry; 0 for
 * types that are not read by index. */
size_t width_of_any(duckdb_logical_type type);
/* The digits of a whole number or a decimal at an index of a vector's data, the last of which a
 * double may round; false for other types. */
#define DIGITS_ROOM 48
bool digits_of_any(duckdb_logical_type type, const void *data, idx_t at, char text[DIGITS_ROOM]);

/* Integers without rounding; the column marks those that are not representable as rounded. */
bool whole_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *f64);

/* Marks number i of n as rounded, in *rounded, which is NULL before the first one. */
void note_rounded(scratch *s, idx_t n, idx_t i, uint64_t **rounded);

/* Numbers of 128 bits, converted and stored as DuckDB does it. */
double from_hugeint(duckdb_hugeint h);
duckdb_hugeint hugeint_of(__int128 x);

/* A column whose rows are all NULL, with items of at most 16 bytes. */
bool all_null(idx_t n, scratch *s, column *c);

/* Whether a type is JSON, which is text by its storage. */
bool is_json_type(duckdb_logical_type type);

/* write_type writes the name of a vector's type. write_refusal writes an error sentence about a
 * call of this function: the types it got, and those it takes. */
void write_type(duckdb_vector v, char *text, size_t room);
void write_refusal(const char *name, duckdb_data_chunk chunk, char text[REFUSAL_ROOM]);

/* Adds overloads that reject calls with fewer or more arguments than `arguments`. */
bool add_refusals(duckdb_scalar_function_set set, const char *name, idx_t arguments);

#endif
