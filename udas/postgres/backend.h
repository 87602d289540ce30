/* Declarations shared by the files of the PostgreSQL extension. Everything here runs in a
 * backend's only thread. */
#ifndef TUSK_POSTGRES_BACKEND_H
#define TUSK_POSTGRES_BACKEND_H

#include "postgres.h"

#include "fmgr.h"

#include "../rowblock/batch.h"

/* Differences between PostgreSQL 13 and 18, so that other files target the newest only. */

#if PG_VERSION_NUM < 130000
#error "tuskml needs PostgreSQL 13 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* Reserves the prefix of settings; before 15 it warns of unknown names and no more. */
#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* The settings (tuskml.c). */
extern char *tuskml_python_path;
extern int tuskml_memory_limit; /* kB; -1: work_mem * hash_mem_multiplier, at least 256 MB */
extern int tuskml_model_limit;  /* kB */
extern int tuskml_threads;
extern bool tuskml_shares;
extern double tuskml_weight;
extern bool tuskml_progress;
extern bool tuskml_application_name;
extern char *tuskml_store_root; /* relative to the data directory, or absolute */

/* Directory of PostgreSQL's own temporary files, relative to the data directory, which is a
 * backend's working directory. */
#define TEMP_FOLDER "base/pgsql_tmp"

/* The bytes that rows may use by the current settings (memory.c). */
int64 backend_budget(void);
/* The backend's account of rows, with its budget by the current settings (memory.c). */
tusk_memory *backend_memory(void);
/* The directory of the stores, absolute, until the setting changes (stores.c). */
const char *backend_store_root(void);
/* The context of an aggregate's states; raises an error if the caller is not an aggregate
 * (memory.c). */
MemoryContext aggregate_context(FunctionCallInfo fcinfo);

#endif
