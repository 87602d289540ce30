/* Shares of a host's cores between trainings of different processes: a table in shared memory, one
 * entry per running training. Each process reads the table and computes its own shares, so nothing
 * is asked of anybody, and an entry whose process was killed is removed by whoever sees it.
 *
 * Max-min fairness (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2) in whole threads:
 * no training can have one more unless another one, which has no more per weight, has one less.
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

enum { TS_TASK_BYTES = 32, TS_PLAN_BYTES = 96 };

/* An entry as it is listed. */
typedef struct ts_entry {
    int64_t pid;
    int32_t wanted; /* threads */
    int32_t share;  /* threads, of `cores` */
    double weight;
    double seconds; /* since the training began */
    int64_t groups; /* of the training */
    int64_t done;   /* of those, how many have a model */
    char task[TS_TASK_BYTES];
    char plan[TS_PLAN_BYTES]; /* texts end with a NUL */
} ts_entry;

/* Opens the table in the file, which is made if it is missing. Returns 0 or an errno: EPERM where
 * the file is not this account's, EPROTO where it is of another version. */
TUSK_SHARES int ts_shares_open(const char *path, double weight);
/* Trainings from now on have no entry. */
TUSK_SHARES void ts_shares_close(void);

/* The calling thread trains until ts_training_end(); calls may be nested, and the outermost
 * counts. cores: that the host, or the container, has. An entry is made once the training is 20 ms
 * old. */
TUSK_SHARES void ts_training_begin(const char *task, int64_t groups, int32_t cores);
TUSK_SHARES void ts_training_end(void);
/* The calling thread's training goes on in so many threads, which have its share in equal parts,
 * at least a thread each; NULL: it does not train. 1: they have ended. */
TUSK_SHARES void *ts_training_split(int32_t parts);
/* The calling thread trains a part of another one's training from now on; NULL: of none. */
TUSK_SHARES void ts_training_join(void *training);
/* What the calling thread's training says of itself: what trains its groups now, and how many more
 * of them have a model. */
TUSK_SHARES void ts_training_plan(const char *plan);
TUSK_SHARES void ts_training_progress(int64_t groups);

/* The entries of all processes, at most n of them. Returns how many there are, or -1: no table. */
TUSK_SHARES int32_t ts_shares_list(ts_entry *out, int32_t n, int32_t cores);

/* Max-min shares of `cores` threads: wanted (n,) at least 1, weight (n,) positive, in the order in
 * which the trainings began; share (n,) is out. Each has at least 1, though that be more in all
 * than there are. */
TUSK_SHARES void ts_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                            int32_t *share);

#ifdef __cplusplus
}
#endif
#endif
