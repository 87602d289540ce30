#include "entries.h"

#include <stdio.h>
#include <stdlib.h>

static int by_id(const void *a, const void *b) {
    int64_t one = ((const tusk_entry *)a)->id, other = ((const tusk_entry *)b)->id;
    return (one > other) - (one < other);
}

bool tusk_is_rising(const tusk_sparse_row *row) {
    for (uint64_t i = 1; i < row->n_ids; i++)
        if (tusk_id_at(row, i - 1) >= tusk_id_at(row, i))
            return false;
    return true;
}

tusk_entry *tusk_entries_of(const tusk_sparse_row *row, bool f64, tusk_entry few[TUSK_FEW_ENTRIES],
                            uint64_t *n, char *sentence) {
    uint64_t given = row->n_ids, kept = 0;
    tusk_entry *found = given > TUSK_FEW_ENTRIES ? malloc(given * sizeof *found) : few;
    if (!found) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return NULL;
    }
    for (uint64_t i = 0; i < given; i++)
        found[i] = (tusk_entry){tusk_id_at(row, i), tusk_number_at(row->values, f64, i)};
    if (!tusk_is_rising(row))
        qsort(found, given, sizeof *found, by_id);
    for (uint64_t i = 0; i < given; kept++) {
        found[kept] = found[i];
        for (i++; i < given && found[i].id == found[kept].id; i++)
            found[kept].x += found[i].x;
    }
    *n = kept;
    return found;
}
