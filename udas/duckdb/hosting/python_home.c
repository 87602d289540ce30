/* Finds the Python that trains in a process without one. A note has two lines, the path of an
 * executable and that of its libpython. `tuskml install` writes it next to the extension's file
 * and in the user's data folder, for copies of the extension elsewhere; an executable named by
 * TUSKML_PYTHON prints it. */
#define _GNU_SOURCE
#include "python.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../kvstore/mapped/default_root.h"

#define VARIABLE "TUSKML_PYTHON"
#define NOTE "tuskml.python"
#define NOTE_ROOM (2 * PATH_MAX)

extern char **environ;

bool python_is_off(void) {
    const char *given = getenv(VARIABLE);
    return given && strcmp(given, "off") == 0;
}

/* Reads a file descriptor to its end, or to the end of the room; false if that fails. */
static bool read_all(int from, char *text, size_t room) {
    size_t n = 0;
    for (ssize_t got; n + 1 < room; n += (size_t)got) {
        got = read(from, text + n, room - 1 - n);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got < 0)
            return false;
        else if (got == 0)
            break;
    }
    text[n] = 0;
    return true;
}

/* Copies the line at *text, and moves *text after it; false if there is none or it is too long. */
static bool take_line(const char **text, char line[static PATH_MAX]) {
    size_t n = strcspn(*text, "\n");
    if ((*text)[n] != '\n' || n >= PATH_MAX)
        return false;
    memcpy(line, *text, n);
    line[n] = 0;
    *text += n + 1;
    return true;
}

static bool read_note(const char *text, python_home *home) {
    return take_line(&text, home->executable) && take_line(&text, home->library) &&
           home->executable[0];
}

/* Runs the executable and reads its output. posix_spawn, since the process has threads. */
static bool ask(const char *executable, char *text, size_t room) {
    int ends[2], status = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    char *const command[] = {(char *)executable, "-m", "tuskml", "install", "--note", NULL};
    pid_t child;
    bool started = posix_spawn(&child, executable, &actions, NULL, command, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    bool done = started && read_all(ends[0], text, room);
    close(ends[0]);
    while (started && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return done && (status == 0 || status == -1); /* -1: the host reaps all its children */
}

/* Whether the note is writable only by users who could change the extension, or who are this
 * account already: the executable in it is run. */
static bool is_trusted(int file, const char *extension) {
    struct stat note, own;
    if (fstat(file, &note) != 0 || stat(extension, &own) != 0)
        return false;
    bool of_owner = note.st_uid == own.st_uid || note.st_uid == geteuid() || note.st_uid == 0;
    bool open_to_all = (note.st_mode & S_IWOTH) && !(own.st_mode & S_IWOTH);
    return S_ISREG(note.st_mode) && of_owner && !open_to_all;
}

/* Reads a note. Returns 0 or an errno, EPERM for one that is not trusted. */
static int read_file(const char *path, const char *extension, char *text, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return errno;
    int problem = !is_trusted(file, extension) ? EPERM : read_all(file, text, room) ? 0 : EIO;
    close(file);
    return problem;
}

static bool path_next_to(const char *extension, char path[static PATH_MAX]) {
    const char *end = strrchr(extension, '/');
    int folder = end ? (int)(end + 1 - extension) : 0;
    return folder && snprintf(path, PATH_MAX, "%.*s%s", folder, extension, NOTE) < PATH_MAX;
}

/* Reads the note next to an extension, or else in the user's data folder. path: out, its path.
 * Returns the result of read_file. */
static int open_note(const char *extension, char *text, size_t room, char path[static PATH_MAX]) {
    int problem = path_next_to(extension, path) ? read_file(path, extension, text, room) : ENOENT;
    if (problem == ENOENT && tusk_data_path(NOTE, path, PATH_MAX))
        problem = read_file(path, extension, text, room);
    return problem;
}

bool python_home_find(python_home *home, const char *extension, char *why, size_t room) {
    char text[NOTE_ROOM], path[PATH_MAX];
    const char *given = getenv(VARIABLE);
    if (given && given[0]) {
        if (ask(given, text, sizeof text) && read_note(text, home))
            return true;
        snprintf(why, room,
                 "the environment variable " VARIABLE " is %.500s, expected the Python "
                 "executable of an environment that has this version of tuskml",
                 given);
        return false;
    }
    int problem = open_note(extension, text, sizeof text, path);
    if (!problem && read_note(text, home))
        return true;
    if (problem == EPERM)
        snprintf(why, room,
                 "%.500s is not started from, since others than the owner of the extension may "
                 "have written it: remove it and run `tuskml install`",
                 path);
    else
        snprintf(
            why, room,
            "the extension was loaded without its Python package, which trains: run `pip install "
            "tuskml` and once `tuskml install`; all else works without it");
    return false;
}
