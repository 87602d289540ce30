#include "numberings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../training/eras.h"

#define SLOTS 64
#define FEW_ROWS 64 /* of a chunk: their texts are not worth being numbered */

/* A thread returns to its own slot, so that the numbers in groups' parts stay those of its
 * numbering. No thread waits for a slot. */
struct numberings {
    pthread_mutex_t lock[SLOTS];
    tusk_numbering *slot[SLOTS];
};

static unsigned my_slot(void) {
    static atomic_uint threads;
    static _Thread_local unsigned mine;
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % SLOTS;
    return mine - 1;
}

numberings *numberings_new(void) {
    numberings *all = calloc(1, sizeof *all);
    for (int i = 0; all && i < SLOTS; i++)
        pthread_mutex_init(all->lock + i, NULL);
    return all;
}

void numberings_free(numberings *all) {
    if (!all)
        return;
    for (int i = 0; i < SLOTS; i++) {
        tusk_numbering_free(all->slot[i]);
        pthread_mutex_destroy(all->lock + i);
    }
    free(all);
}

/* NULL if another thread has the slot or memory is out. */
static tusk_numbering *take(numberings *all) {
    unsigned i = my_slot();
    if (!all || pthread_mutex_trylock(all->lock + i))
        return NULL;
    if (!all->slot[i])
        all->slot[i] = tusk_numbering_new();
    if (all->slot[i])
        return all->slot[i];
    pthread_mutex_unlock(all->lock + i);
    return NULL;
}

/* Whether neighbouring rows mostly belong to different groups. */
static bool scattered(duckdb_aggregate_state *states, idx_t n) {
    idx_t changes = 0;
    for (idx_t i = 1; i < n; i++)
        changes += states[i] != states[i - 1];
    return changes > n / 4;
}

/* DuckDB 1.x does not reveal the states of the rows. */
bool number_texts(database *d, tusk_named_chunk *chunk, duckdb_aggregate_state *states, idx_t n,
                  scratch *s) {
    if (n < FEW_ROWS || d->v1 || d->process != forks_so_far() || !scattered(states, n))
        return false;
    tusk_numbering *numbering = take(d->numberings);
    uint8_t *room = numbering ? piece(s, n * (idx_t)chunk->schema->n_columns) : NULL;
    if (room)
        tusk_number_rows(numbering, eras_newest(d->eras), chunk, n, room);
    return numbering;
}

void numbering_give(numberings *all) {
    pthread_mutex_unlock(all->lock + my_slot());
}
