/* The table of a host's running trainings, in shared memory: one slot per training. Processes
 * of one account map the same file (schedule/native/shares.cpp writes it), and functions that
 * list the trainings read it, in both databases too. Numbers are read and written atomically,
 * because other processes do so at any time. Texts end with a NUL that is never overwritten,
 * and may be mixed while they change. Times are seconds of the monotonic clock, which all
 * processes of a host share and which cannot be set. */
#ifndef TUSK_ACTIVITY_TABLE_H
#define TUSK_ACTIVITY_TABLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUSK_TABLE_MAGIC 0x3473657261687374 /* "tshares4" */
#define TUSK_TABLE_SETTING "TUSKML_SHARES"

enum {
    TUSK_SLOTS = 512,  /* further trainings have no slot */
    TUSK_DEVICES = 16, /* of a host */
    TUSK_PROGRAM_BYTES = 16,
    TUSK_TASK_BYTES = 32,
    TUSK_PLAN_BYTES = 160
};

typedef struct tusk_slot {
    int64_t pid;           /* 0: free; -1: being removed */
    int64_t process_began; /* ticks since the host started */
    int32_t ready, wanted; /* number of threads that the training requests */
    int32_t cores;         /* of the host or the container, as its owner sees it */
    int32_t device;        /* the one that it waits for or has, from 1 on; 0: none */
    double weight, began;
    int64_t groups, done; /* number of groups, and of those with a model */
    int64_t rows;         /* read so far, a row counting once for each pass over it */
    double progress;      /* fraction of the work that is done; NaN: unknown */
    double progress_at;
    double
        expected; /* seconds that its plan is expected to take from expected_at on; NaN: unknown */
    double expected_at;
    double ideal; /* seconds that an equal part of the cores would have taken for the work done */
    double ideal_at;
    double pace;      /* increase of `ideal` per second since then */
    int64_t number;   /* of the training in its process, from 1 on */
    double device_at; /* time of its request for the device */
    /* Its turns at the cores; see turns.c. */
    int32_t inside;   /* number of its computations that run or wait */
    int32_t demand;   /* number of threads that they can use */
    int32_t held;     /* number of threads that it may use now; 0: it waits */
    int32_t reserved; /* 0 */
    double demand_at; /* when it last wanted as many */
    double active_at; /* end of its last computation */
    double credit;    /* thread-seconds that it has had less than its share, at credit_at */
    double credit_at;
    double waits_since;  /* since when others have threads that it is given; 0: nobody has */
    double core_seconds; /* threads that it had times seconds, until credit_at */
    char program[TUSK_PROGRAM_BYTES], task[TUSK_TASK_BYTES], plan[TUSK_PLAN_BYTES];
} tusk_slot;

typedef struct tusk_table {
    uint64_t magic;
    uint64_t generation; /* increases whenever shares may change */
    tusk_slot slots[TUSK_SLOTS];
    int64_t devices[TUSK_DEVICES]; /* holder of each: the index of its slot, from 1 on; 0: none */
} tusk_table;

#define TUSK_LOAD(x)                                     \
    __extension__({                                      \
        __typeof__(x) loaded_;                           \
        __atomic_load(&(x), &loaded_, __ATOMIC_SEQ_CST); \
        loaded_;                                         \
    })
#define TUSK_STORE(x, value)                              \
    do {                                                  \
        __typeof__(x) stored_ = (value);                  \
        __atomic_store(&(x), &stored_, __ATOMIC_SEQ_CST); \
    } while (0)

/* The table named by the environment: a path, "" for the account's own. NULL: sharing is off. */
const char *tusk_table_setting(void);
/* Opens the table of a setting. Without `make` a missing file is ENOENT. Returns 0 or an errno:
 * EPERM if the file is another account's, unless the setting names it and a group of this
 * account may write it, EPROTO if it is of another version. */
int tusk_table_open(const char *setting, int make, tusk_table **out);
void tusk_table_close(tusk_table *table);

double tusk_table_now(void);
/* Start of a process, in ticks since the host started; 0: there is none; -1: unknown. */
int64_t tusk_process_began(int64_t pid);
/* Frees slots whose processes have ended. */
void tusk_remove_gone(tusk_table *table);
void tusk_release(tusk_table *table, tusk_slot *slot);
/* Releases the device that the training of a slot has, if it has one. */
void tusk_leave_device(tusk_table *table, tusk_slot *slot);
/* Copies as much of a text as fits; the last byte stays 0. */
void tusk_put_text(char *to, int size, const char *text);

/* A training that runs. */
typedef struct tusk_running {
    int64_t pid, number;
    int32_t wanted; /* threads */
    double share;   /* threads in the mean; below 1 it has one in turns */
    double weight;
    double seconds;         /* since it began */
    double core_seconds;    /* threads that it has had times seconds */
    int64_t groups, done;   /* number of groups, and of those with a model */
    double rows_per_second; /* mean, a row counting once for each pass over it; NaN: unknown */
    double progress;        /* 0 to 1; NaN: unknown */
    double left;            /* estimated seconds, by progress or by the plan; NaN: unknown */
    /* The estimated total time over that with an equal part of the cores, by weight (Mahajan
     * 2021, equation 3.1); threads count alike. NaN where the time left is not known. */
    double rho;
    int32_t device, has_device; /* the requested one, from 1 on, 0: none; whether it has it */
    char program[TUSK_PROGRAM_BYTES], task[TUSK_TASK_BYTES], plan[TUSK_PLAN_BYTES];
} tusk_running;

/* The slots of trainings (out, room for TUSK_SLOTS), in the order of their starts. Returns their
 * number. */
int32_t tusk_list_slots(tusk_table *table, tusk_slot **slots);
double tusk_weight(tusk_slot *slot);

/* The turn of a training. threads: number that it may use now, 0: it waits; contended: whether
 * trainings want more threads than there are; share: threads in the mean; pace: speed now,
 * relative to an equal part of the cores by weight. */
typedef struct tusk_turn {
    int32_t threads, contended;
    double share, pace;
} tusk_turn;

/* The turn of a training of the table at `now`, which its threads ask for between two tasks. The
 * slot notes it. */
tusk_turn tusk_take_turn(tusk_table *table, tusk_slot *mine, int32_t cores, double now);
/* A training begins a computation that can use `wanted` threads; its owner counts it in `inside`
 * afterwards, and sets `active_at` before it counts it no more. */
void tusk_begin_computing(tusk_slot *slot, int32_t wanted, double now);
/* The trainings that run on the host, the oldest first; room for TUSK_SLOTS of them. Returns
 * their number, or -1 with the reason as a sentence. */
#define TUSK_ACTIVITY_SENTENCE 4352
int32_t tusk_activity(tusk_running *out, char *sentence);

/* Max-min shares of `cores` threads by weight, in parts of a thread: wanted (n,) at least 1,
 * weight (n,) positive; share (n,) is out. No training can have more unless another one, which has
 * no more per weight, has less (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2). */
void tusk_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                  double *share);

#ifdef __cplusplus
}
#endif
#endif
