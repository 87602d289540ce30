/* Ctrl-C and tuskml_cancel() in a client's process that has a helper, and so no kernels: what
 * kernels/native/shared/pool.cpp does elsewhere. */
#ifndef TUSK_CANCELS_H
#define TUSK_CANCELS_H

#include <stdint.h>

/* To be called once before the others. */
void own_cancels_begin(void);
int64_t own_cancel_count(void);
void own_cancel(void);
/* While enabled, as often as it was enabled, SIGINT counts as a cancel. */
void own_watch_sigint(int on);

#endif
