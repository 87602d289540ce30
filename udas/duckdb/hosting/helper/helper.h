/* The process that trains for a client whose own process cannot have Python in it.
 *
 * It is started when the first training needs it, and lives as long as the client's process. One
 * that ended is replaced by the next training.
 */
#ifndef TUSK_HELPER_H
#define TUSK_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct helper {
    int channel;
    pid_t process,
        client; /* client: the process that started it; a fork of the client has no helper */
    int users;
    int status;  /* status from waitpid; -1 if it is not known */
    bool reaped; /* the process has ended, and was waited for */
    bool over;
} helper;

/* Starts the helper of a Python executable, which trains from now on. extension: path of this
 * library. If it cannot be started, writes why. */
bool helper_begin(const char *executable, const char *extension, char *why, size_t room);

/* The helper, in use until it is given back; a new one if none is alive. NULL, and why, if none
 * can be started. */
helper *helper_take(char *why, size_t room);
void helper_give(helper *h);
/* Ends a helper that did not respond, and writes how it ended. */
void helper_end(helper *h, char *why, size_t room);

/* Trains a batch in the helper (batch.h). */
struct tusk_batch;
int helper_train(struct tusk_batch *batch);

/* Ctrl-C and tuskml_cancel() in a client's process that has a helper, and so no kernels: what
 * kernels/native/shared/pool.cpp does elsewhere. */

/* To be called once before the others. */
void own_cancels_begin(void);
int64_t own_cancel_count(void);
void own_cancel(void);
/* While enabled, as often as it was enabled, SIGINT counts as a cancel. */
void own_watch_sigint(int on);

#endif
