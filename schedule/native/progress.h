/* Progress of a long computation, for the list of running trainings. Like the pool, it is
 * passed to the libraries that compute (kernels/library.py). */
#ifndef TUSK_PROGRESS_H
#define TUSK_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tusk_progress {
    /* The calling thread's training begins `units` units of work on `groups` of its groups.
     * Returns a handle; NULL if the thread does not train. */
    void *(*begin)(int64_t units, int64_t groups);
    /* Adds finished units, and the rows read for them. Any thread may call it. */
    void (*done)(void *work, int64_t units, int64_t rows);
    void (*end)(void *work);
} tusk_progress;

__attribute__((visibility("default"))) const tusk_progress *ts_progress(void);

#ifdef __cplusplus
}
#endif
#endif
