#include "python.h"

#include "storage/fd.h"

#include <fcntl.h>

#include "extension.h"

#define PYTHON_BYTES (32 << 20)
#define PYTHON_FILES 8
#define RAISED "plpy.Error: "

static void look_for_memory(void) {
    void *room = malloc(PYTHON_BYTES);
    if (!room)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                        errmsg("tuskml: out of memory for Python, which takes %d MB to start",
                               PYTHON_BYTES >> 20)));
    free(room);
}

/* PostgreSQL closes its own files if needed; these stay free for Python. */
static void look_for_files(void) {
    int files[PYTHON_FILES], n = 0;
    while (n < PYTHON_FILES && (files[n] = OpenTransientFile("/dev/null", O_RDONLY)) >= 0)
        n++;
    bool enough = n == PYTHON_FILES;
    while (n)
        CloseTransientFile(files[--n]);
    if (!enough)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_RESOURCES),
                        errmsg("tuskml: too few open files are allowed for Python, which needs %d "
                               "to start",
                               PYTHON_FILES)));
}

/* If Python lacks memory or files when it starts, it ends the process: without memory the server
 * ends too, without files the connection. */
static void look_for_room(void) {
    static bool seen;
    if (seen)
        return;
    look_for_memory();
    look_for_files();
    seen = true;
}

/* Removes what PL/Python adds to the context: a traceback. Keeps the lines below it, which say
 * where the statement was. */
static char *without_traceback(char *context, const char *name) {
    char *line = psprintf("PL/Python function \"%s\"", name);
    char *found = context ? strstr(context, line) : NULL;
    if (!found)
        return NULL;
    found = strchr(found, '\n');
    return found ? pstrdup(found + 1) : NULL;
}

static bool begins(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

/* Rewrites an exception that left Python as a sentence. Errors that the database itself raised
 * stay as they are. */
static void rephrase(ErrorData *error, const char *name, const char *caller) {
    error->context = without_traceback(error->context, name);
    if (begins(error->message, RAISED))
        error->message += strlen(RAISED);
    if (error->sqlerrcode != ERRCODE_EXTERNAL_ROUTINE_EXCEPTION)
        return;
    error->detail = NULL;
    if (begins(error->message, "MemoryError")) {
        error->sqlerrcode = ERRCODE_OUT_OF_MEMORY;
        error->message = psprintf("%s: out of memory for Python", caller);
        return;
    }
    char *end = error->message ? strchr(error->message, '\n') : NULL;
    if (end)
        *end = 0;
    error->message =
        psprintf("%s: Python failed: %s", caller, error->message ? error->message : "");
}

void call_python(const char *name, const char *caller) {
    look_for_room();
    MemoryContext before = CurrentMemoryContext;
    PG_TRY();
    {
        OidFunctionCall0(function_of_ours(name));
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(before);
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        rephrase(error, name, caller);
        ReThrowError(error);
    }
    PG_END_TRY();
}
