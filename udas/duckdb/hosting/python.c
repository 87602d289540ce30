/* Starts the Python that trains, in a process that was loaded without tuskml's package. The
 * process is DuckDB's command line, Node, Java or another program. libpython is located when it
 * is needed, and so are the few functions that are called here: all of them have the same
 * signature in each version that tuskml supports. A process that runs a Python already, as R
 * may, imports the package there. Python is never finalized: DuckDB may call until the end. A
 * Python that cannot be loaded into the process trains in a separate process (helper/). */
#define _GNU_SOURCE
#include "python.h"

#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "helper/helper.h"

/* Interface to the package (front/databases/hosted.py). */
typedef struct request {
    const char *extension; /* path of this library */
    char error[PYTHON_SENTENCE];
} request;

typedef struct python {
    int (*is_initialized)(void);
    void (*set_program_name)(const wchar_t *name);
    void (*initialize)(int signal_handlers);
    int (*run)(const char *code, void *flags);
    int (*enter)(void);
    void (*leave)(int state);
    void *(*release)(void);
} python;

static const char CODE[] = "import ctypes\n"
                           "try:\n"
                           "    from tuskml.databases.hosted import start\n"
                           "    start(%lld)\n"
                           "except BaseException as error:\n"
                           "    said = f'{type(error).__name__}: {error}'.split('\\n')[0]\n"
                           "    said = said.encode(errors='replace')[:%d] + b'\\0'\n"
                           "    ctypes.memmove(%lld, said, len(said))\n";

static const char WITHOUT_PACKAGE[] =
    "the extension was loaded without its Python package, which trains: run `pip install tuskml` "
    "and once `tuskml install`, or in Python open the database with tuskml.connect(...); all else "
    "works without it";

#define HELPER "TUSKML_HELPER"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started;

static bool find(void *from, const char *name, void *function) {
    *(void **)function = dlsym(from, name);
    return *(void **)function != NULL;
}

/* The functions of a library, or for RTLD_DEFAULT those already in the process. */
static bool python_of(void *library, python *p) {
    return find(library, "Py_IsInitialized", &p->is_initialized) &&
           find(library, "Py_InitializeEx", &p->initialize) &&
           find(library, "PyRun_SimpleStringFlags", &p->run) &&
           find(library, "PyGILState_Ensure", &p->enter) &&
           find(library, "PyGILState_Release", &p->leave) &&
           find(library, "PyEval_SaveThread", &p->release) &&
           find(library, "Py_SetProgramName", &p->set_program_name);
}

/* Imports the package, which sets the trainer. The caller holds Python's lock. */
static bool import_package(const python *p, request *asked) {
    char code[sizeof CODE + 64];
    snprintf(code, sizeof code, CODE, (long long)(intptr_t)asked, (int)sizeof asked->error - 1,
             (long long)(intptr_t)asked->error);
    return p->run(code, NULL) == 0 && !asked->error[0];
}

/* Starting Python sets the process's LC_CTYPE, which belongs to the host. */
static void initialize(const python *p) {
    const char *now = setlocale(LC_CTYPE, NULL);
    char *before = now ? strdup(now) : NULL;
    p->initialize(0);
    if (before)
        setlocale(LC_CTYPE, before);
    free(before);
}

/* Loads libpython into this process, with its functions; NULL if that is impossible. */
static void *library_of(const python_home *home, python *p) {
    /* Global, since extension modules such as NumPy's resolve Python's symbols in the process. */
    void *library = home->library[0] ? dlopen(home->library, RTLD_NOW | RTLD_GLOBAL) : NULL;
    return library && python_of(library, p) ? library : NULL;
}

/* Starts an interpreter with the packages of the executable's environment. */
static bool start_interpreter(const python_home *home, const python *p, request *asked) {
    static wchar_t name[PATH_MAX]; /* Python keeps the pointer */
    if (mbstowcs(name, home->executable, PATH_MAX) == (size_t)-1)
        for (size_t i = 0; i < PATH_MAX; i++) /* as Latin-1; Python compares bytes with files */
            if (!(name[i] = (unsigned char)home->executable[i]))
                break;
    p->set_program_name(name);
    initialize(p);
    bool done = import_package(p, asked);
    p->release();
    return done;
}

static void refuse_library(const python_home *home, request *asked) {
    if (home->library[0])
        snprintf(asked->error, sizeof asked->error,
                 "%.500s is no libpython of a version that tuskml supports, and " HELPER
                 " is off: run `tuskml install` again",
                 home->library);
    else
        snprintf(
            asked->error, sizeof asked->error,
            "%.400s has no shared libpython, which training in this process needs, and " HELPER
            " is off: install tuskml in a Python that has one, such as Debian's with "
            "libpython3, and run `tuskml install` there",
            home->executable);
}

/* Whether a helper process trains. */
enum helping { WHERE_NEEDED, ALWAYS, NEVER, UNKNOWN };

static enum helping helping(void) {
    const char *given = getenv(HELPER);
    if (!given || !given[0] || strcmp(given, "auto") == 0)
        return WHERE_NEEDED;
    return strcmp(given, "on") == 0 ? ALWAYS : strcmp(given, "off") == 0 ? NEVER : UNKNOWN;
}

/* Starts Python in a process without one, or a helper. */
static bool start_python(request *asked, enum helping how) {
    python_home home;
    python p;
    if (!python_home_find(&home, asked->extension, asked->error, sizeof asked->error))
        return false;
    if (how != ALWAYS && library_of(&home, &p))
        return start_interpreter(&home, &p, asked);
    if (how != NEVER)
        return helper_begin(home.executable, asked->extension, asked->error, sizeof asked->error);
    refuse_library(&home, asked);
    return false;
}

static bool start(request *asked) {
    Dl_info self;
    python running;
    enum helping how = helping();
    asked->extension = dladdr((void *)(intptr_t)python_starts, &self) ? self.dli_fname : "";
    if (how == UNKNOWN) {
        snprintf(asked->error, sizeof asked->error,
                 "the environment variable " HELPER " is %.200s, expected on, off or auto",
                 getenv(HELPER));
        return false;
    }
    if (how == ALWAYS || !python_of(RTLD_DEFAULT, &running) || !running.is_initialized())
        return start_python(asked, how);
    int state = running.enter();
    bool done = import_package(&running, asked);
    running.leave(state);
    if (strstr(asked->error, "No module named 'tuskml'"))
        snprintf(asked->error, sizeof asked->error, "%s", WITHOUT_PACKAGE);
    return done;
}

bool python_starts(char why[static PYTHON_SENTENCE]) {
    request asked = {.error = ""};
    if (python_is_off()) {
        snprintf(why, PYTHON_SENTENCE, "%s", WITHOUT_PACKAGE);
        return false;
    }
    pthread_mutex_lock(&starting);
    if (!started)
        started = start(&asked);
    bool done = started;
    pthread_mutex_unlock(&starting);
    if (!done)
        memcpy(why, asked.error, sizeof asked.error);
    return done;
}
