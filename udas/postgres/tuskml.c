/* Entry point of the library's LOAD: its settings, and the functions that Python finds by name.
 *
 * PostgreSQL opens libraries with their symbols visible to the whole process. So Python's
 * ctypes.CDLL(None) finds what is exported here, in the very library that the backend uses.
 */
#include "backend.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/timeout.h"

#include "training/trainer.h"

PG_MODULE_MAGIC;

#ifndef TUSKML_PYTHON_PATH
#define TUSKML_PYTHON_PATH ""
#endif

#if PG_VERSION_NUM >= 140000
/* Declared here because libpq/libpq.h needs headers of the server's own dependencies, such as
 * GSSAPI's. */
extern bool pq_check_connection(void);
extern PGDLLIMPORT int client_connection_check_interval;
#endif

char *tuskml_python_path;
static char *tuskml_modules;
static int tuskml_log_level;
int tuskml_memory_limit;
int tuskml_model_limit;
int tuskml_threads;
bool tuskml_shares;
double tuskml_weight;
bool tuskml_progress;
bool tuskml_application_name;
char *tuskml_store_root;

/* Values as in Python (groups/records.py). */
enum { LOG_OFF, LOG_FAILED, LOG_ALL };
static const struct config_enum_entry log_levels[] = {{"off", LOG_OFF, false},
                                                      {"error", LOG_FAILED, false},
                                                      {"info", LOG_ALL, false},
                                                      {NULL, 0, false}};

PGDLLEXPORT void _PG_init(void);
PGDLLEXPORT const char *tuskml_version(void);
PGDLLEXPORT const char *tuskml_python_path_now(void);
PGDLLEXPORT const char *tuskml_modules_now(void);
PGDLLEXPORT const char *tuskml_log_level_now(void);
PGDLLEXPORT int tuskml_interrupted(void);

void _PG_init(void) {
    DefineCustomStringVariable(
        "tuskml.python_path", "The folder of Python packages that holds tuskml and numpy.",
        "Set by tuskml postgres install; superusers only.", &tuskml_python_path,
        TUSKML_PYTHON_PATH, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomStringVariable(
        "tuskml.modules", "Python modules that register your own tasks and operators.",
        "Names, separated by commas, that the next training imports; superusers only.",
        &tuskml_modules, "", PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomIntVariable("tuskml.memory_limit",
                            "Memory for the rows of a session's trainings; more rows spill to "
                            "disk.",
                            "-1: work_mem * hash_mem_multiplier, at least 256MB.",
                            &tuskml_memory_limit, -1, -1, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB,
                            NULL, NULL, NULL);
    DefineCustomIntVariable("tuskml.model_limit", "The most that the text of a model may take.",
                            "A row whose text is more than 1 GB cannot be dumped: the default "
                            "leaves 16 MB for its other columns.",
                            &tuskml_model_limit, 1032191, 16, 1032191, PGC_USERSET, GUC_UNIT_KB,
                            NULL, NULL, NULL);
    DefineCustomIntVariable("tuskml.threads", "Threads that a training may use.",
                            "0: one more than max_parallel_workers_per_gather, at least 2, at "
                            "most the processors.",
                            &tuskml_threads, 0, 0, 1024, PGC_USERSET, 0, NULL, NULL, NULL);
    DefineCustomBoolVariable("tuskml.shares",
                             "Trainings share the host's cores with others that run.",
                             "Off: a training takes its threads whatever others do.",
                             &tuskml_shares, true, PGC_USERSET, 0, NULL, NULL, NULL);
    DefineCustomRealVariable(
        "tuskml.weight", "Weight of trainings when cores are shared, beside 1 of others.",
        "Superusers only.", &tuskml_weight, 1, 0.01, 100, PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomBoolVariable("tuskml.progress", "Report the progress of long trainings by NOTICE.",
                             NULL, &tuskml_progress, true, PGC_USERSET, 0, NULL, NULL, NULL);
    DefineCustomBoolVariable("tuskml.application_name",
                             "Show the progress of long trainings as application_name in "
                             "pg_stat_activity.",
                             NULL, &tuskml_application_name, false, PGC_USERSET, 0, NULL, NULL,
                             NULL);
    DefineCustomStringVariable("tuskml.store_root", "The directory of stored models.",
                               "A relative path is below the data directory; superusers only.",
                               &tuskml_store_root, "tuskml/stores", PGC_SUSET, GUC_SUPERUSER_ONLY,
                               NULL, NULL, NULL);
    DefineCustomEnumVariable(
        "tuskml.log_level", "Trainings that write a line of JSON into the server's log.",
        "off, error: those that fail, or info: all; superusers only.", &tuskml_log_level, LOG_OFF,
        log_levels, PGC_SUSET, 0, NULL, NULL, NULL);
    MarkGUCPrefixReserved("tuskml");
    watch_transactions();
}

const char *tuskml_version(void) {
    return TUSKML_VERSION;
}

const char *tuskml_python_path_now(void) {
    return tuskml_python_path;
}

const char *tuskml_modules_now(void) {
    return tuskml_modules;
}

const char *tuskml_log_level_now(void) {
    return log_levels[tuskml_log_level].name;
}

/* Checks the client's connection like CHECK_FOR_INTERRUPTS with
 * client_connection_check_interval, but raises no error. PostgreSQL 13 has no such setting. */
static void look_for_client(void) {
#if PG_VERSION_NUM >= 140000
    if (!CheckClientConnectionPending)
        return;
    CheckClientConnectionPending = false;
    if (client_connection_check_interval <= 0)
        return;
    if (pq_check_connection())
        enable_timeout_after(CLIENT_CONNECTION_CHECK_TIMEOUT, client_connection_check_interval);
    else
        ClientConnectionLost = true;
#endif
}

/* Whether the statement must end. The kernels call it on the backend's own thread. No error may
 * jump over their frames, so the caller of the training raises it after they return. */
int tuskml_interrupted(void) {
    if (likely(!InterruptPending))
        return 0;
    look_for_client();
    return QueryCancelPending || ProcDiePending || ClientConnectionLost;
}
