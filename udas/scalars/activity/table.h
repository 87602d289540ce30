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

#define TUSK_TABLE_MAGIC 0x3373657261687374 /* "tshares3" */
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
    double ideal; /* seconds that an equal part of the cores would have taken for the work done */
    double ideal_at;
    double pace;      /* increase of `ideal` per second since then */
    int64_t number;   /* of the training in its process, from 1 on */
    double device_at; /* time of its request for the device */
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
    int32_t wanted, share; /* threads */
    double weight;
    double seconds;         /* since it began */
    int64_t groups, done;   /* number of groups, and of those with a model */
    double rows_per_second; /* mean, a row counting once for each pass over it; NaN: unknown */
    double progress;        /* 0 to 1; NaN: unknown */
    double left;            /* estimated seconds; NaN: unknown */
    /* The estimated total time over that with an equal part of the cores, by weight (Mahajan
     * 2021, equation 3.1); threads count alike. */
    double rho;
    int32_t device, has_device; /* the requested one, from 1 on, 0: none; whether it has it */
    char program[TUSK_PROGRAM_BYTES], task[TUSK_TASK_BYTES], plan[TUSK_PLAN_BYTES];
} tusk_running;

/* Participating slots (out, room for TUSK_SLOTS) in the order of their starts, and max-min
 * shares of `cores` cores. Returns their number. */
int32_t tusk_share_slots(tusk_table *table, int32_t cores, tusk_slot **slots, int32_t *share);
/* Speed of training `place` with its share, relative to an equal part of the cores. */
double tusk_pace(int32_t n, tusk_slot *const *slots, const int32_t *share, int32_t cores,
                 int32_t place);
/* The trainings that run on the host, the oldest first; room for TUSK_SLOTS of them. Returns
 * their number, or -1 with the reason as a sentence. */
#define TUSK_ACTIVITY_SENTENCE 4352
int32_t tusk_activity(tusk_running *out, char *sentence);

/* Max-min shares of `cores` threads: wanted (n,) at least 1, weight (n,) positive, in the order
 * of starts; share (n,) is out. Each has at least 1, even if the sum exceeds cores. Max-min
 * fairness (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2) in whole threads: no
 * training can have one more unless another one, which has no more per weight, has one less. */
void tusk_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                  int32_t *share);

#ifdef __cplusplus
}
#endif
#endif
