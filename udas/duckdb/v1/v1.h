/* Workarounds that DuckDB 1.5 needs and 2.0 does not. Nothing in this folder is called on 2.0.
 *
 * The defect. DuckDB 1.x calls the update of an aggregate in C with an array of states, one per
 * row. But for OVER (), and for ORDER BY among the arguments, it passes the address of a single
 * pointer, to the state of all rows: a constant vector, whose data it passes as if it were a
 * flat vector's. The C interface does not say which of the two it is. Mistaking one for the
 * other writes rows to wrong states, or past the end of memory. DuckDB 2.0 always passes an
 * array.
 *
 * The workaround. The call site in DuckDB tells them apart: the same code always passes a
 * single state. So when the extension is loaded, it registers an aggregate of its own and runs
 * a query for each such call site. The aggregate looks at what it was passed and notes the
 * return address two frames up (lone_states.c). An update from a call site that none of these
 * queries went through is refused with an error sentence.
 *
 * Why nothing simpler works. All of these were tried or looked into on 1.4 and 1.5:
 *  - The memory does not tell. Windows side by side put single pointers next to each other,
 *    which looks like an array of live states. Alignment does not tell either: if few rows pass
 *    a FILTER, their array is as small as a single pointer. A wrong guess means wrong models.
 *  - The aggregate cannot be declared otherwise. Three declarations would avoid those calls,
 *    but the C interface has none of them: that order does not matter, a simple update, and a
 *    window function of its own. It also gives no access to the plan, the text of the
 *    statement, or the vector of states.
 *  - A fixed list of return addresses would need one list for each build of DuckDB.
 *
 * Decimals. 1.x also rounds differently from 2.0 when it casts DECIMAL to DOUBLE, and a model
 * must not depend on whether DuckDB casts or we do (decimals.c).
 *
 * When it can go. As soon as tuskml requires DuckDB 2.0, which waits for DuckDB's command line
 * and the Node package. Delete the folder, `database.v1`, everything that begins with v1_ in
 * database.h, any_type.c and extension.c, CALLER, and LONE_STATE with its line in
 * docs/sql/errors.md. Keep eras.c: 2.0.0 forgets states as well.
 */
#ifndef TUSK_V1_H
#define TUSK_V1_H

#include <stdbool.h>
#include <string.h>

#include "duckdb_extension.h"

/* Whether this DuckDB is a 1.x. */
#define V1_NEEDED (strncmp(duckdb_library_version(), "v1.", 3) == 0)

/* Facts about a loaded DuckDB 1.x; they live as long as the process. */
typedef struct v1 v1;

/* Examines this DuckDB, once for each DuckDB library in the process; NULL on an error of
 * DuckDB. */
const v1 *v1_learn(duckdb_connection connection);

/* The return address of the function that uses this macro, which must be an update. */
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
/* The most rows in a chunk. */
#define CHUNK_ROWS 2048

/* The states of n rows, n > 1, as an array: `states` itself, or `same`, filled with the single
 * state that update got for all rows. NULL if the call site is unknown. caller: the update's. */
duckdb_aggregate_state *v1_states_of_rows(const v1 *known, duckdb_aggregate_state *states, idx_t n,
                                          const void *caller,
                                          duckdb_aggregate_state same[CHUNK_ROWS]);
#define LONE_STATE                                                     \
    "OVER () and ORDER BY among the arguments need DuckDB 2.0: order " \
    "the rows in a subquery, join the result to the rows"

/* x / 10^scale, with the integer part and the fraction rounded separately. power: 10^scale. */
double v1_decimal(__int128 x, int scale, double power);

/* Every function in this folder counts its calls here, so that a test can check that 2.0 makes
 * none. */
void v1_note(void);

#endif
