/* What the files of PostgreSQL's door share. Everything here runs in a backend's only thread. */
#ifndef TUSK_POSTGRES_DOOR_H
#define TUSK_POSTGRES_DOOR_H

#include "postgres.h"

#include "fmgr.h"

#include "../rowblock/batch.h"

/* The settings (tuskml.c). */
extern char *tuskml_python_path;
extern int tuskml_memory_limit; /* kB; -1: work_mem * hash_mem_multiplier, at least 256 MB */
extern int tuskml_threads;
extern bool tuskml_progress;

/* The backend's account of rows, its budget as the settings are now (memory.c). */
tusk_memory *backend_memory(void);

/* Fields of tuskml_model, in the order of the type. */
enum model_field {
    M_TASK,
    M_COEF,
    M_INTERCEPT,
    M_STD_ERR,
    M_CLASSES,
    M_N_ROWS,
    M_N_SKIPPED,
    M_N_FEATURES,
    M_LOSS,
    M_HISTORY,
    M_ITERATIONS,
    M_CONVERGED,
    M_STATUS,
    M_PLAN,
    M_SECONDS,
    M_OPTIONS,
    M_STORE,
    MODEL_FIELDS
};

#endif
