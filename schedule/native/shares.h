/* Shares of a host's cores between trainings of different processes: a table in shared memory, one
 * slot per running training (`udas/scalars/activity/table.h`). Each process reads the table and
 * computes its own shares, so nothing is asked of anybody, and a slot whose process was killed is
 * removed by whoever sees it.
 *
 * QOOP (Mahajan 2021, pseudocode 1) tells a training its share whenever it changes; here a
 * training's threads look at the table's generation between their tasks.
 */
#ifndef TUSK_SHARES_H
#define TUSK_SHARES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUSK_SHARES __attribute__((visibility("default")))

/* A training that begins. program: whose process it is, such as a database's name; cores: that the
 * host, or the container, has; takes_part: whether it has a slot; weight: positive, beside 1 of
 * others. */
typedef struct ts_beginning {
    const char *program, *task;
    int64_t groups;
    int32_t cores, takes_part;
    double weight;
} ts_beginning;

/* Opens the table that the environment names, which is made if it is missing. Returns 0, an errno
 * as of tusk_table_open, or ECANCELED where trainings share nothing. Those that begin from then on
 * have slots in it, or none. */
TUSK_SHARES int ts_shares_open(void);

/* The calling thread trains until ts_training_end(); calls may be nested, and the outermost
 * counts. A slot is taken once the training is 20 ms old, when it next asks for threads or says
 * how far it is. */
TUSK_SHARES void ts_training_begin(const ts_beginning *given);
TUSK_SHARES void ts_training_end(void);
/* The calling thread's training has these shares instead of those of the table: threads[i] from
 * seconds[i] after its beginning on, (n,) each. */
TUSK_SHARES void ts_training_replay(int32_t n, const double *seconds, const int32_t *threads);
/* The calling thread's training goes on in so many threads, which have its share in equal parts,
 * at least a thread each; NULL: it does not train. 1: they have ended. */
TUSK_SHARES void *ts_training_split(int32_t parts);
/* The calling thread trains a part of another one's training from now on; NULL: of none. */
TUSK_SHARES void ts_training_join(void *training);

/* What the calling thread's training says of itself: what trains its groups now, how many more of
 * them have a model, and how much of the work on so many others is done (NaN: unknown), with the
 * rows that were read since it said so last. */
TUSK_SHARES void ts_training_plan(const char *plan);
TUSK_SHARES void ts_training_progress(int64_t groups);
TUSK_SHARES void ts_training_step(double part, int64_t of_groups, int64_t rows);

/* Threads that the calling thread's training may have now, of so many that it wants. */
TUSK_SHARES int32_t ts_training_share(int32_t wanted);
/* Seconds since the calling thread's training began; 0: it does not train. */
TUSK_SHARES double ts_training_age(void);

/* The calling thread's training asks for a device, from 1 on. Returns 1 where it is to wait until
 * ts_device_take() is 1, and 0 where nobody knows of devices. */
TUSK_SHARES int32_t ts_device_ask(int32_t device);
TUSK_SHARES int32_t ts_device_take(void);
/* Whether another training waits for the device that the calling thread's training has. */
TUSK_SHARES int32_t ts_device_wanted(void);
TUSK_SHARES void ts_device_leave(void);

/* As tusk_activity; out: tusk_running. */
TUSK_SHARES int32_t ts_activity(void *out, char *sentence);
/* As tusk_max_min. */
TUSK_SHARES void ts_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                            int32_t *share);

#ifdef __cplusplus
}
#endif
#endif
