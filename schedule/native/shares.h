/* Shares of a host's cores between trainings of different processes: a table in shared memory,
 * one slot per running training (`udas/scalars/activity/table.h`). Each process reads the table
 * and computes its own shares, so there is no coordinator, and any process removes the slots of
 * killed ones. QOOP (Mahajan 2021, pseudocode 1) notifies a training of its share whenever it
 * changes; here a training's threads check the table's generation between their tasks. */
#ifndef TUSK_SHARES_H
#define TUSK_SHARES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUSK_SHARES __attribute__((visibility("default")))

/* A training that begins. program: name of the process, such as a database's; cores: of the
 * host or the container; takes_part: whether it has a slot; weight: positive, relative to 1. */
typedef struct ts_beginning {
    const char *program, *task;
    int64_t groups;
    int32_t cores, takes_part;
    double weight;
} ts_beginning;

/* Opens the table that the environment names, and creates it if it is missing. Returns 0, an
 * errno as of tusk_table_open, or ECANCELED if sharing is off. Trainings that begin from then
 * on have slots in it, or none. */
TUSK_SHARES int ts_shares_open(void);

/* The calling thread trains until ts_training_end(); calls may be nested, and the outermost
 * counts. A slot is taken once the training is 20 ms old, when it next requests threads or
 * reports progress. */
TUSK_SHARES void ts_training_begin(const ts_beginning *given);
TUSK_SHARES void ts_training_end(void);
/* The calling thread's training has these shares instead of those of the table: threads[i] from
 * seconds[i] after its beginning on, (n,) each. */
TUSK_SHARES void ts_training_replay(int32_t n, const double *seconds, const int32_t *threads);
/* Splits the calling thread's training into `parts` threads, which have its share in equal
 * parts, at least a thread each. Returns a handle; NULL if it does not train. ts_training_join
 * ends the split. */
TUSK_SHARES void *ts_training_split(int32_t parts);
/* The calling thread trains a part of another one's training from now on; NULL: of none. */
TUSK_SHARES void ts_training_join(void *training);

/* Reports of the calling thread's training: the algorithm of its groups and the seconds that it is
 * expected to take (NaN: unknown), how many more of them have a model, and the fraction done of
 * the work on some others (NaN: unknown), with the rows read since the last report. */
TUSK_SHARES void ts_training_plan(const char *plan, double seconds);
TUSK_SHARES void ts_training_progress(int64_t groups);
TUSK_SHARES void ts_training_step(double part, int64_t of_groups, int64_t rows);

/* Sets the function that counts cancellations of this process, which training threads call. A
 * training that waits for its turn goes on once the count has changed since its beginning. */
TUSK_SHARES void ts_watch_cancels(void *count);
/* Number of threads that the calling thread's training has in the mean, from 1 to `wanted`. */
TUSK_SHARES int32_t ts_training_share(int32_t wanted);
/* The calling thread's training does not wait for its turn from `at` on, in seconds of the
 * monotonic clock; 0: always. */
TUSK_SHARES void ts_training_deadline(double at);
/* Seconds since the calling thread's training began; 0 if it does not train. */
TUSK_SHARES double ts_training_age(void);

/* Requests a device, from 1 on, for the calling thread's training. Returns 1 if it has to wait
 * until ts_device_take() is 1, and 0 if devices are not shared. */
TUSK_SHARES int32_t ts_device_ask(int32_t device);
TUSK_SHARES int32_t ts_device_take(void);
/* Whether another training waits for the device that the calling thread's training has. */
TUSK_SHARES int32_t ts_device_wanted(void);
TUSK_SHARES void ts_device_leave(void);

/* See tusk_activity; out: tusk_running. */
TUSK_SHARES int32_t ts_activity(void *out, char *sentence);
/* See tusk_max_min. */
TUSK_SHARES void ts_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                            double *share);
/* The turn of the training in one slot of a table, for simulations. See tusk_take_turn; returns
 * threads. */
TUSK_SHARES int32_t ts_take_turn(void *table, int32_t slot, int32_t cores, double now);
TUSK_SHARES void ts_begin_computing(void *table, int32_t slot, int32_t wanted, double now);

#ifdef __cplusplus
}
#endif
#endif
