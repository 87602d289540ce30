/* The groups of one aggregate call in one query: their states, and which of them train
 * together. PostgreSQL finalises one group at a time, but training one group costs more in
 * set-up than in arithmetic. When the first group of a hashed aggregate is finalised, the rows
 * of all groups are there. So the states of one memory context form a list, and the first state
 * that is finalised trains many others with it. */
#ifndef TUSK_POSTGRES_GROUPS_H
#define TUSK_POSTGRES_GROUPS_H

#include "../../scalars/named/gaps.h"
#include "../backend.h"

#include "datatype/timestamp.h"

typedef struct group_spec {
    struct group_spec *next;
    char *task;
    char *options;
    int task_length;
    int options_length;
    bool labelled;             /* whether rows have labels */
    bool ordered;              /* whether labels are */
    bool documents;            /* whether rows are documents */
    bool ids;                  /* whether the columns of rows with names are ids */
    enum tusk_kept_gaps gaps;  /* which rows with a NULL are used: option `missing` */
    enum tusk_invalid invalid; /* treatment of rows with a fault: option `invalid` */
    bool merges;               /* whether equal rows may become one */
} group_spec;

typedef struct group_list group_list;

/* The transition state of one group. */
typedef struct train_state {
    tusk_block block;
    tusk_remarks remarks;
    const group_spec *spec; /* NULL until the first row */
    group_list *list;
    struct train_state *next;
    Datum result; /* set once done; 0: NULL */
    bool done;
} train_state;

/* Frees a group's rows. */
void state_free(train_state *s);

/* The states of one memory context. Their rows are freed when it is reset. */
struct group_list {
    group_list *next;
    MemoryContext context; /* NULL after a reset */
    train_state *first, *last;
    train_state *pending; /* no state before it in the list needs training */
    MemoryContextCallback on_reset;
};

/* State of a transition function between rows, in its fn_extra. */
typedef struct collector {
    MemoryContext context;
    const char *name; /* the aggregate's, for errors */
    tusk_memory *memory;
    group_spec *specs;
    group_list *lists, *current;
    int64 rows;       /* number seen so far */
    TimestampTz told; /* time of the last progress report to the client */
} collector;

void collector_init(collector *c, FunctionCallInfo fcinfo);
/* Makes a new group in the aggregate's memory context. */
train_state *group_new(collector *c, MemoryContext context);
/* Counts a row and sets its group's task and options, or rejects them if the group has others. */
void group_adopt(collector *c, train_state *s, const char *task, int task_length,
                 const char *options, int options_length);
pg_noreturn void refuse_fault(const char *name, const tusk_fault *fault);

#endif
