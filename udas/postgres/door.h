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
extern char *tuskml_store_root; /* relative to the data directory, or absolute */

/* Where PostgreSQL's own temporary files lie; a backend's working directory is that of the data.
 */
#define TEMP_FOLDER "base/pgsql_tmp"

/* Bytes for rows, as the settings are now (memory.c). */
int64 backend_budget(void);
/* The backend's account of rows, its budget as the settings are now (memory.c). */
tusk_memory *backend_memory(void);
/* The directory of the stores, absolute, until the setting changes (stores.c). */
const char *backend_store_root(void);
/* Where an aggregate's states live; an error when the caller is no aggregate (memory.c). */
MemoryContext aggregate_context(FunctionCallInfo fcinfo);

#endif
