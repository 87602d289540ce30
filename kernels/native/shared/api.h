/* Declarations shared by all parts of the kernels. Each part's `api.h` is its interface: plain C,
 * called from Python with the GIL released.
 *
 * A pass reads the rows of a batch of groups. All groups of a batch have the same number of
 * features d and the same kind of storage. Weights are doubles of shape (n_groups, d + 1) in C
 * order, the intercept last; other arrays with one item per weight have the same layout. Sums
 * over rows are taken in chunks whose borders depend on the rows alone, so results do not depend
 * on the number of threads (except in the lock-free kernels).
 *
 * Coordinates. Rows are stored without change. A kernel that takes shift and scale, of shape
 * (n_groups, d), works on z = (x - shift) * scale. If v are the weights of z, then w = v * scale
 * and b = v_d - w.shift. Sparse rows are not shifted.
 *
 * Every function returns TK_OK or one of the codes below.
 */
#ifndef TUSK_SHARED_API_H
#define TUSK_SHARED_API_H

#include <stdint.h>

#include "../../../schedule/native/pool.h"
#include "../../../udas/rowblock/rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_API __attribute__((visibility("default")))

enum tk_code {
    TK_OK = 0,
    TK_CANCELLED = 1,
    TK_NO_MEMORY = 2,
    TK_DISK_FULL = 3,
    TK_LOSS_FAILED = 4, /* the caller's loss function did not return 0 */
    TK_OUT_OF_TIME = 5, /* the deadline has passed; the output is incomplete */
    TK_REFUSED = 6      /* the data cannot be used, and a sentence says why */
};

/* Allocates size bytes, aligned to 64. They are charged to the memory account of the rows, which
 * may place them in its spill file. If memory is NULL, they come from the heap. */
typedef struct tk_charged tk_charged;
TK_API int tk_charged_new(tusk_memory *memory, int64_t size, tk_charged **out, void **at);
TK_API void tk_charged_free(tk_charged *charged);
TK_API void tk_memory_use(tusk_memory *memory, tusk_memory_use *use);
/* Opens a training on the calling thread. Its arrays count in the account, and it may use at least
 * floor bytes. Trainings are closed in reverse order. Returns NULL if there is no memory. The
 * handler is NumPy's PyDataMem_Handler; it stays valid after the training is closed. */
typedef struct tk_working tk_working;
TK_API tk_working *tk_working_open(tusk_memory *memory, int64_t floor);
TK_API void *tk_working_handler(tk_working *working);
TK_API void tk_working_close(tk_working *working);
/* The training of the calling thread, and a setter for it; NULL: none. */
TK_API tk_working *tk_working_here(void);
TK_API void tk_working_enter(tk_working *working);

typedef struct tk_pass {
    const tusk_group *groups;
    int64_t n_groups;
    const double *positive; /* (n_groups,) the label that counts as +1; unused for squared loss */
    const double *class_weight; /* (n_groups, 2) weights of the -1 and the +1 examples */
    int32_t loss;               /* LossKind of linear/losses.hpp */
    int32_t fit_intercept;
    double smoothing; /* width of the parabola at a loss's corner; 0: none */
    int32_t threads;
    int32_t loss_only;   /* tk_gradient writes its first two sums only: out is (n_groups, 2) */
    int32_t stride;      /* read only every stride-th chunk or partition; 1: all rows */
    int64_t cancel_mark; /* tk_cancel_count() when the training began; -1: cannot be cancelled */
    /* (n_groups, 2): the parameter of the loss, such as the quantile, and a factor of
     * smoothing; NULL: 0 and 1 */
    const double *parameter;
    int32_t by_scores; /* tk_curvature sums the squared derivatives of the losses instead of
                        * their curvatures */
    double deadline; /* for tk_curvature, in seconds of the monotonic clock; 0: none. Other passes
                        are short, so their callers check the clock between passes */
    int32_t common;  /* neighbouring groups have rows in common, which tk_gradient reads once */
} tk_pass;

TK_API int tk_version(void);
/* Number of entries that a group's sparse rows store. */
TK_API int64_t tk_nonzeros(const tusk_group *group);
/* Sets the pool whose threads all passes use from now on. */
TK_API void tk_use_pool(const tusk_pool *pool);
/* Cancels all running trainings: those with an older cancel_mark stop within milliseconds. Safe
 * in a signal handler. */
TK_API void tk_cancel(void);
TK_API int64_t tk_cancel_count(void);
/* While this is on, SIGINT cancels all trainings, and then the previous handler runs. Calls nest.
 */
TK_API void tk_watch_sigint(int on);
/* For a host that handles signals itself, such as a database server. interrupted() is called
 * often, but only on the thread that called the kernel. If its result is not 0, all trainings are
 * cancelled. It is used instead of the SIGINT handler. */
TK_API void tk_watch_host(int (*interrupted)(void));

#ifdef __cplusplus
}
#endif
#endif
