/* Which states the rows of an update belong to.
 *
 * DuckDB 1.x hands an update an array of states, one a row, or the pointer to one state for all
 * rows (OVER () and ORDER BY among the arguments), and does not say which. Nothing in the memory
 * tells them apart for certain: a lone pointer may lie beside other pointers to states, and the
 * array of a FILTER that few rows pass is as small as a lone pointer. The place in DuckDB that
 * calls does, so these places are learned from a few queries when the extension is loaded.
 */
#ifndef TUSK_STATES_H
#define TUSK_STATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "duckdb_extension.h"

/* The first word of a state that is alive. */
#define STATE_MARK UINT64_C(0x7475736b73746174)
/* Rows of a chunk, at most. */
#define CHUNK_ROWS 2048
#define MOST_SITES 16
#define LEARNT (-1)

enum handing { NOT_KNOWN, AN_ARRAY, ONE_STATE };

/* Places in DuckDB that call updates, and what they hand over. Written while the extension is
 * loaded, then read. */
typedef struct call_sites {
    const void *place[MOST_SITES];
    enum handing gives[MOST_SITES];
    int n;
    _Atomic(int) learning; /* by which query, or LEARNT */
    size_t alignment;      /* of a large array; 0: this DuckDB gives arrays alone */
} call_sites;

/* Of an update's caller: what it hands over. */
enum handing handed_by(const call_sites *sites, const void *caller);

/* Where the function returns to that this stands in: an update. */
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* The states of n rows, an array: `states`, or `same`, filled, where update got one for all rows.
 * NULL where neither is sure. caller: of the update. */
duckdb_aggregate_state *states_of_rows(const call_sites *sites, duckdb_aggregate_state *states,
                                       idx_t n, const void *caller,
                                       duckdb_aggregate_state same[CHUNK_ROWS]);
#define LONE_STATE                                                     \
    "OVER () and ORDER BY among the arguments need DuckDB 2.0: order " \
    "the rows in a subquery, join the result to the rows"

#endif
